"""What ONNX Runtime makes of a graph of small images."""

import numpy as np

from tests.export.passes.layers import session


def logits(model, images=3, **settings):
    """Of random images, as large as the graph takes them."""
    (pixels,) = model.graph.inputs
    sizes = [images, *(int(size) for size in pixels.shape[1:])]
    feeds = {pixels.name: np.random.default_rng(5).standard_normal(sizes).astype(np.float32)}
    return session(model, **settings).run(["logits"], feeds)[0]


def operators(model):
    """By name, in order."""
    return [node.op_type for node in model.graph]
