"""Convolutions that read one weight in several ways, as OpenVINO convolves by it."""

import copy

import onnx_ir as ir
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from export.passes.openvino.part_convolutions import PartConvolutions
from export.passes.quantise.lower_precision import LowerPrecision
from serving.runtime.openvino.runner import openvino_is_installed
from tests.export.passes.modules import assert_computes, traced
from tests.export.passes.openvino.test_turn_weights import assert_near, lowered, openvinos

CHANNELS, PLACES = 16, 5


class TiedConvolutions(nn.Module):
    """An autoencoder of images whose decoder is its encoder's kernel."""

    def __init__(self, ways, size=3, axes=2, groups=1, **settings):
        super().__init__()
        torch.manual_seed(0)
        shape = CHANNELS, CHANNELS // groups, *([size] * axes)
        self.weight = nn.Parameter(torch.randn(shape) / (CHANNELS // groups * size**axes) ** 0.5)
        self.ways, self.settings = ways, {"padding": size // 2, "groups": groups, **settings}

    def forward(self, x):
        for way in self.ways:
            x = torch.relu(way(x, self.weight, self.settings))
        return x


def conv(x, weight, settings):
    return (F.conv1d, F.conv2d, F.conv3d)[x.dim() - 3](x, weight, **settings)


def transposed(x, weight, settings):
    return (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[x.dim() - 3](x, weight, **settings)


def exchanged(x, weight, settings):
    return conv(x, weight.transpose(0, 1), settings)


MODULES = {
    "3 x 3": TiedConvolutions([conv, transposed]),
    "the other way first": TiedConvolutions([transposed, conv]),
    "1 x 1": TiedConvolutions([conv, transposed], size=1),
    "volumes": TiedConvolutions([conv, transposed], axes=3),
    "rows": TiedConvolutions([conv, transposed], axes=1),
    "a channel alone": TiedConvolutions([conv, transposed], groups=CHANNELS),
    "strides and holes": TiedConvolutions([conv, transposed], stride=2, dilation=2, padding=2),
    "channels exchanged": TiedConvolutions([conv, exchanged, transposed]),
}


@pytest.mark.skipif(not openvino_is_installed(), reason="OpenVINO is not installed")
@pytest.mark.parametrize("case", MODULES)
def test_openvino_convolves_every_way(tmp_path, case):
    module, places = MODULES[case].eval(), [PLACES] * (MODULES[case].weight.dim() - 2)
    x = torch.randn(3, CHANNELS, *places, generator=torch.Generator().manual_seed(0))
    exact = copy.deepcopy(module).double()(x.double()).detach().numpy()
    graph = traced(module, CHANNELS, *places)
    assert_computes(graph, copy.deepcopy(module))
    (path,) = lowered(traced(module, CHANNELS, *places), tmp_path)
    for hint, tolerance in (("f32", 1e-5), ("bf16", 0.03)):
        assert_near(openvinos(path, x, hint)[0], exact, tolerance)


@pytest.mark.skipif(not openvino_is_installed(), reason="OpenVINO is not installed")
def test_openvino_convolves_every_way_in_bfloat16(tmp_path):
    module, x = MODULES["1 x 1"].eval(), torch.randn(3, CHANNELS, PLACES, PLACES)
    exported = traced(module, CHANNELS, PLACES, PLACES)
    LowerPrecision(ir.DataType.BFLOAT16, (), lambda graph: {})(exported.model)
    assert PartConvolutions()(exported.model).fired == 1
    ir.save(exported.model, tmp_path / "model.onnx")
    assert_near(
        openvinos(tmp_path / "model.onnx", x)[0], copy.deepcopy(module).double()(x.double()).detach().numpy(), 0.03
    )


def test_what_is_rewritten_computes_the_same_by_onnx_runtime():
    for module in MODULES.values():
        places = [PLACES] * (module.weight.dim() - 2)
        exported = traced(copy.deepcopy(module), CHANNELS, *places)
        assert PartConvolutions()(exported.model).fired == len(module.ways) - 1
        assert PartConvolutions()(exported.model).fired == 0
        assert_computes(exported, copy.deepcopy(module))


def test_a_weight_that_is_read_one_way_is_stored_once(tmp_path):
    assert not lowered(traced(TiedConvolutions([conv, conv]), CHANNELS, PLACES, PLACES), tmp_path)
