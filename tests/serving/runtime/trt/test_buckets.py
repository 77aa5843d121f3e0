import numpy as np
import pytest

from models.manifest import Manifest
from models.signature import Axis, GraphSignature, TensorSpec
from serving.runtime.cached_decoder import CachedDecoder
from serving.runtime.ort_runner import OrtRunner
from serving.runtime.trt.buckets import bucket, lengthened


@pytest.mark.parametrize(("size", "expected"), [(1, 64), (64, 64), (65, 128), (129, 256), (900, 1000), (1000, 1000)])
def test_a_length_is_rounded_up_to_a_power_of_two_and_never_beyond_the_capacity(size, expected):
    assert bucket(size, 1000) == expected


def signature(outputs=()):
    mask = TensorSpec(name="self_mask", dtype="bool", axes=("batch", 1, "steps", "attended"))
    ids = TensorSpec(name="token_ids", dtype="int64", axes=("batch", "steps"))
    axes = {"attended": Axis(usual=50, largest=100)}
    return GraphSignature(name="decoder", inputs=(ids, mask), outputs=outputs, axes=axes)


def test_a_mask_is_lengthened_with_positions_that_nobody_sees():
    arrays = {"token_ids": np.ones((2, 1)), "self_mask": np.ones((2, 1, 1, 3), dtype=bool)}
    longer = lengthened(signature(), arrays)
    assert longer["token_ids"] is arrays["token_ids"]
    assert longer["self_mask"].shape == (2, 1, 1, 64)
    assert longer["self_mask"].sum() == 6 and longer["self_mask"][..., :3].all()


def test_a_graph_whose_results_have_that_axis_is_left_alone():
    shown = TensorSpec(name="weights", dtype="float32", axes=("batch", "attended"))
    arrays = {"token_ids": np.ones((2, 1)), "self_mask": np.ones((2, 1, 1, 3), dtype=bool)}
    assert lengthened(signature((shown,)), arrays)["self_mask"].shape == (2, 1, 1, 3)


def test_a_longer_mask_gives_the_same_answer(language_model):
    graph = Manifest.read(language_model).graph("decoder")
    runner = OrtRunner(language_model / "decoder.onnx", graph)
    logits = []
    for longer in (False, True):
        decoder = CachedDecoder(runner, 2)
        decoder.step(np.array([[5, 6, 7], [8, 9, 10]]), np.zeros(2, dtype=np.int64))
        feeds = {"token_ids": np.array([[5], [6]]), "start": np.array([3, 3]), "scored": np.array([[0], [0]])}
        feeds["self_mask"] = np.ones((2, 1, 1, 4), dtype=bool)
        feeds = lengthened(graph, feeds) if longer else feeds
        logits.append(runner.run({**feeds, **decoder.caches})["logits"].numpy())
    np.testing.assert_allclose(logits[0], logits[1], atol=1e-6)
