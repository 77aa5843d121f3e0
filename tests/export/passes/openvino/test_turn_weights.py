"""Matrices that are read both ways, in bfloat16, as OpenVINO multiplies by them."""

import numpy as np
import onnx_ir as ir
import pytest
import torch
from torch import nn
from torch.nn.functional import linear

from export.artefact.stage import export_onnx
from export.mixed_precision.convert import convert_file
from export.mixed_precision.request import Request
from export.passes.openvino.turn_weights import TurnWeights
from serving.runtime.openvino.runner import openvino_is_installed
from tests.export.passes.layers import both_ways

WIDTH = 32
needs_openvino = pytest.mark.skipif(not openvino_is_installed(), reason="OpenVINO is not installed")


class Tied(nn.Module):
    """An autoencoder whose decoder is its encoder's matrix."""

    def __init__(self, turned_first):
        super().__init__()
        torch.manual_seed(0)
        self.weight, self.turned_first = nn.Parameter(torch.randn(WIDTH, WIDTH) / 6), turned_first

    def forward(self, x):
        first, second = (self.weight.T, self.weight) if self.turned_first else (self.weight, self.weight.T)
        return linear(torch.relu(linear(x, first)), second)


def openvinos(path, x):
    """What OpenVINO computes in float32."""
    import openvino

    settings = {"INFERENCE_PRECISION_HINT": "f32"}
    return openvino.Core().compile_model(path, "CPU", settings)([x.numpy()])[0].astype(np.float64)


def assert_near(found, exact):
    assert np.linalg.norm(found - exact) < 0.02 * np.linalg.norm(exact)


@needs_openvino
@pytest.mark.parametrize("turned_first", [False, True], ids=["as it is first", "turned first"])
def test_openvino_computes_a_square_matrix_that_is_read_both_ways(tmp_path, turned_first):
    module, x = Tied(turned_first).eval(), torch.randn(3, 5, WIDTH)
    program = torch.export.export(module, (x,), dynamic_shapes=({0: torch.export.Dim("batch")},))
    torch.export.save(program, tmp_path / "tied.pt2")
    export_onnx(str(tmp_path / "tied.pt2"), tmp_path / "artefact", precision="bf16")
    assert_near(openvinos(tmp_path / "artefact" / "model.onnx", x), module.double()(x.double()).detach().numpy())


@needs_openvino
def test_openvino_computes_it_in_anybodys_converted_file(tmp_path):
    model, x = both_ways(WIDTH, WIDTH, turned_first=True), torch.randn(3, 5, WIDTH)
    weight = torch.from_numpy(model.graph.initializers["weight"].const_value.numpy().astype(np.float64))
    ir.save(model, tmp_path / "tied.onnx")
    request = Request(precision="bf16", target="openvino-cpu", sizes={}, budget=None)
    convert_file(tmp_path / "tied.onnx", tmp_path / "tied.bf16.onnx", request)
    exact = linear(torch.relu(linear(x.double(), weight)), weight.T).numpy()
    assert_near(openvinos(tmp_path / "tied.bf16.onnx", x), exact)


def in_bfloat16(model):
    for value in model.graph.initializers.values():
        value.const_value = ir.tensor(value.const_value.numpy().astype(ir.DataType.BFLOAT16.numpy()), name=value.name)
        value.dtype = ir.DataType.BFLOAT16
    return model


def test_a_square_matrix_of_bfloat16_is_stored_turned_and_a_second_run_fires_nothing():
    model = in_bfloat16(both_ways(WIDTH, WIDTH, turned_first=True))
    assert [TurnWeights()(model).fired, TurnWeights()(model).fired] == [1, 0]
    weight, turned = (value.const_value.numpy() for value in model.graph.initializers.values())
    assert (turned == weight.T).all()
    assert [node.op_type for node in model.graph] == ["MatMul", "Relu", "MatMul"]


@pytest.mark.parametrize(
    "model", [in_bfloat16(both_ways(32, 48, True)), both_ways(32, 32, True)], ids=["wide", "wider"]
)
def test_other_matrices_are_stored_once(model):
    assert TurnWeights()(model).fired == 0
