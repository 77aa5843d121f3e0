"""Square matrices that are read both ways, in every spelling and type, as OpenVINO multiplies by them."""

import numpy as np
import onnx
import onnx_ir as ir
import pytest
import torch
from onnx import numpy_helper
from torch import nn
from torch.nn.functional import linear

from export.artefact.stage import export_onnx
from export.graph import exported_graph
from export.mixed_precision.convert import convert_file
from export.mixed_precision.request import Request
from export.passes.lowering import lower_graph
from export.passes.openvino.turn_weights import TurnWeights
from export.passes.quantise.lower_precision import LowerPrecision
from serving.runtime.openvino.runner import openvino_is_installed
from tests.export.passes.layers import both_ways
from tests.export.passes.modules import traced

WIDTH = 32
needs_openvino = pytest.mark.skipif(not openvino_is_installed(), reason="OpenVINO is not installed")


class BothWays(nn.Module):
    """A square matrix W that is multiplied as it is and turned, in one spelling."""

    def __init__(self, spelling):
        super().__init__()
        torch.manual_seed(0)
        self.weight, self.spelling = nn.Parameter(torch.randn(WIDTH, WIDTH) / 6), spelling
        self.register_buffer("bias", torch.randn(WIDTH))

    def forward(self, x):
        return self.spelling(x, self.weight, self.bias)


class Tied(nn.Module):
    """An autoencoder whose decoder is its encoder's matrix."""

    def __init__(self, turned_first):
        super().__init__()
        torch.manual_seed(0)
        self.weight, self.turned_first = nn.Parameter(torch.randn(WIDTH, WIDTH) / 6), turned_first

    def forward(self, x):
        first, second = (self.weight.T, self.weight) if self.turned_first else (self.weight, self.weight.T)
        return linear(torch.relu(linear(x, first)), second)


def openvinos(path, x, precision="f32"):
    """All that OpenVINO computes."""
    import openvino

    compiled = openvino.Core().compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": precision})
    found = compiled([x.numpy()])
    return [found[at].astype(np.float64) for at in range(len(compiled.outputs))]


def assert_near(found, exact, tolerance=0.02):
    assert np.linalg.norm(found - exact) < tolerance * np.linalg.norm(exact)


def lowered(graph, folder):
    """Where OpenVINO's form of a graph lies; none where it has none."""
    graph.write(folder)
    return [folder / one.file for one in lower_graph(graph, folder, ["openvino-cpu"]) if one.file]


def _quarter(w):
    return w.chunk(2)[1].chunk(2, 1)[0]


SPELLINGS = {
    "products": lambda x, w, _: (linear(x, w), x @ w),
    "one behind the other": lambda x, w, _: (linear(x, w) @ w,),
    "of rows": lambda x, w, _: (x[:, 0] @ w, linear(x[:, 0], w)),
    "with a bias": lambda x, w, b: (linear(x[:, 0], w, b), torch.addmm(b, x[:, 0], w)),
    "with a bias, turned twice": lambda x, w, b: (linear(linear(x[:, 0], w, b), w.T, b), x @ w.T),
    "sums over axes": lambda x, w, _: (torch.einsum("btc,dc->btd", x, w), torch.einsum("btc,cd->btd", x, w)),
    "a sum and a product": lambda x, w, _: (x @ w, torch.einsum("...c,dc->...d", x, w)),
    "a quarter": lambda x, w, _: (x[..., :16] @ _quarter(w), linear(x[..., :16], _quarter(w))),
    "a quarter, one behind the other": lambda x, w, _: (linear(x[..., :16], _quarter(w)) @ _quarter(w),),
    "a tied embedding": lambda x, w, _: (x @ w.T, nn.functional.embedding(torch.zeros_like(x[..., 0]).long(), w) @ w),
}


@needs_openvino
@pytest.mark.parametrize("stored", ["float32", "float16", "float32, in a file beside it"])
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_openvino_multiplies_both_ways_however_that_is_spelled_and_stored(tmp_path, monkeypatch, spelling, stored):
    module, x = BothWays(SPELLINGS[spelling]), torch.randn(3, 5, WIDTH)
    graph = traced(module, 5, WIDTH)
    if stored == "float16":
        LowerPrecision(ir.DataType.FLOAT16, (), lambda graph: {})(graph.model)
    if stored.endswith("beside it"):
        monkeypatch.setattr(exported_graph, "LARGE", 0)
    (path,) = lowered(graph, tmp_path)
    exact = module.double()(x.double())
    for hint, tolerance in (("f32", 0.002 if stored == "float16" else 1e-5), ("bf16", 0.02)):
        for found, right in zip(openvinos(path, x, hint), exact, strict=True):
            assert_near(found, right.detach().numpy(), tolerance)


@pytest.mark.parametrize(
    "spelling",
    [
        lambda x, w, _: (linear(x, w), linear(torch.relu(x), w)),
        lambda x, w, _: (x @ w[:16].T, x[..., :16] @ w[:16]),
        lambda x, w, _: (x @ w.T, nn.functional.embedding(torch.zeros_like(x[..., 0]).long(), w)),
        lambda x, w, b: (linear(linear(x[:, 0], w, b), w, b), x @ w.T),
    ],
    ids=["one way", "no square", "looked up", "two products of one way"],
)
def test_other_matrices_are_stored_once_and_the_graph_has_no_form_of_its_own(tmp_path, spelling):
    assert not lowered(traced(BothWays(spelling), 5, WIDTH), tmp_path)


BEHIND = {
    "nothing": "v = Identity(w)",
    "an axis in front": "v = Identity(batch)",
    "three axes in front": "v = Identity(many)",
    "two turns": "u = Transpose(w) v = Transpose <perm = [1, 0]> (u)",
    "a type": "v = Cast <to = 1> (half)",
    "a split": "s, v = Split <axis = 0, num_outputs = 2> (two)",
    "an axis put in front and taken away": "u = Unsqueeze (w, first) v = Squeeze (u, first)",
    "another order of sizes": "v = Reshape (flat, sizes)",
}


@needs_openvino
@pytest.mark.parametrize("behind", BEHIND)
def test_openvino_multiplies_both_ways_behind_what_stands_before_a_product(tmp_path, behind):
    matrix = np.random.default_rng(0).standard_normal((WIDTH, WIDTH)).astype(np.float32)
    rank = {"an axis in front": 3, "three axes in front": 5}.get(behind, 2)
    turn = f"Transpose <perm = {[*range(rank - 2), rank - 1, rank - 2]}>"
    text = f"""<ir_version: 10, opset_import: ["": 21]>
    g (float[batch, 5, {WIDTH}] x) => (float y, float z)
    {{ {BEHIND[behind]} t = {turn} (v) y = MatMul(x, t) z = MatMul(x, v) }}"""
    proto = onnx.parser.parse_model(text)
    constants = {"w": matrix, "batch": matrix[None], "half": matrix.astype(np.float16), "first": np.array([0])}
    constants |= {"two": np.concatenate([matrix, matrix]), "flat": matrix.ravel(), "sizes": np.array([WIDTH, WIDTH])}
    constants["many"] = matrix[None, None, None]
    read = {name for node in proto.graph.node for name in node.input}
    proto.graph.initializer.extend(numpy_helper.from_array(constants[name], name) for name in read & constants.keys())
    model = ir.from_proto(proto)
    assert [TurnWeights()(model).fired, TurnWeights()(model).fired] == [1, 0]
    ir.save(model, tmp_path / "model.onnx")
    x = torch.randn(3, 5, WIDTH)
    turned, as_it_is = (found.reshape(x.shape) for found in openvinos(tmp_path / "model.onnx", x))
    assert_near(turned, x.double().numpy() @ matrix.T.astype(np.float64), 0.01)
    assert_near(as_it_is, x.double().numpy() @ matrix.astype(np.float64), 0.01)


@needs_openvino
@pytest.mark.parametrize("turned_first", [False, True], ids=["as it is first", "turned first"])
def test_openvino_computes_an_artefact_in_bfloat16(tmp_path, turned_first):
    module, x = Tied(turned_first).eval(), torch.randn(3, 5, WIDTH)
    program = torch.export.export(module, (x,), dynamic_shapes=({0: torch.export.Dim("batch")},))
    torch.export.save(program, tmp_path / "tied.pt2")
    export_onnx(str(tmp_path / "tied.pt2"), tmp_path / "artefact", precision="bf16")
    (found,) = openvinos(tmp_path / "artefact" / "model.onnx", x)
    assert_near(found, module.double()(x.double()).detach().numpy())


@needs_openvino
@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_openvino_computes_anybodys_converted_file(tmp_path, precision):
    model, x = both_ways(WIDTH, WIDTH, turned_first=True), torch.randn(3, 5, WIDTH)
    weight = torch.from_numpy(model.graph.initializers["weight"].const_value.numpy().astype(np.float64))
    ir.save(model, tmp_path / "tied.onnx")
    request = Request(precision=precision, target="openvino-cpu", sizes={}, budget=None)
    outcome = convert_file(tmp_path / "tied.onnx", tmp_path / "tied.narrow.onnx", request)
    assert outcome.passes == {"turn_weights": 1}
    (found,) = openvinos(tmp_path / "tied.narrow.onnx", x)
    assert_near(found, linear(torch.relu(linear(x.double(), weight)), weight.T).numpy())
