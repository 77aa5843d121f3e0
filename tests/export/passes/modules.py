"""The graph of a module of one input, and whether it still computes what the module does."""

import numpy as np
import torch

from attendant.signature import GraphSignature, TensorSpec
from export.graph.exported_graph import require_signature
from export.graph.onnx_graph import onnx_from_torch
from models.task_graph import TaskGraph
from tests.export.passes.layers import session


def traced(module, *sizes):
    """The graph of a module of x [batch, *sizes]; it returns y0, y1 and so on."""

    def spec(name, tensor):
        return TensorSpec(name=name, dtype="float32", axes=("batch", *tensor.shape[1:]))

    x = torch.zeros(2, *sizes)
    outputs = tuple(spec(f"y{at}", value) for at, value in enumerate(_returned(module, x)))
    signature = GraphSignature(name="model", inputs=(spec("x", x),), outputs=outputs)
    return onnx_from_torch(TaskGraph(signature=signature, module=module))


def assert_computes(exported, module, tolerance=1e-5):
    """A graph, rewritten or not, keeps its signature and answers as its module does in float64."""
    require_signature(exported.model, exported.signature)
    (spec,) = exported.signature.inputs
    x = torch.randn(3, *spec.axes[1:], generator=torch.Generator().manual_seed(1))
    found = session(exported.model).run(None, {"x": x.numpy()})
    for one, exact in zip(found, _returned(module.double(), x.double()), strict=True):
        np.testing.assert_allclose(one, exact.numpy(), rtol=0, atol=tolerance * np.abs(exact.numpy()).max())


def _returned(module, x):
    with torch.no_grad():
        found = module.eval()(x)
    return found if isinstance(found, tuple) else (found,)
