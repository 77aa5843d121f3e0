"""Attention under a constant bias or a mask as two products: the same numbers but for the order of sums."""

import copy

import numpy as np
import onnx_ir as ir
import pytest
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from export.passes.lowering import lower_graph
from export.passes.openvino.attend_by_products import AttendByProducts
from export.passes.ort.pack_products import PackProducts
from export.passes.quantise.quantise_dynamic import QuantiseDynamic
from serving.runtime.openvino.runner import OpenVinoRunner, openvino_is_installed
from tests.export.passes.images import logits, operators
from tests.export.passes.layers import session
from tests.export.passes.modules import assert_computes, traced

PLACES, HEADS = 6, 2


@pytest.fixture
def swin(explained_swin):
    """The graph of the shipped Swin."""
    return ir.load(explained_swin / "model.onnx")


def test_answers_are_the_same_but_for_the_order_of_sums(swin):
    before, windows = logits(swin), operators(swin).count("Attention")
    assert AttendByProducts()(swin).fired == windows > 0
    assert "Attention" not in operators(swin)
    np.testing.assert_allclose(logits(swin), before, rtol=0, atol=2e-5 * np.abs(before).max())


def test_a_second_run_fires_nothing(swin):
    AttendByProducts()(swin)
    before = operators(swin)
    assert AttendByProducts()(swin).fired == 0
    assert operators(swin) == before


def test_attention_without_a_bias_or_with_a_causal_one_stays(swin, tiny_classifier):
    plain = ir.load(tiny_classifier / "model.onnx")
    assert AttendByProducts()(plain).fired == 0
    first = next(node for node in swin.graph if node.op_type == "Attention")
    first.attributes["is_causal"] = ir.AttrInt64("is_causal", 1)
    outcome = AttendByProducts()(swin)
    assert outcome.refused == [f"{first.outputs[0].name}: it is causal, or caps its scores"]
    assert operators(swin).count("Attention") == 1


class Attention(nn.Module):
    """Attention under a constant bias, the same for all heads."""

    def __init__(self, bias):
        super().__init__()
        self.register_buffer("bias", bias)

    def forward(self, x):
        heads = x.unflatten(-1, (HEADS, -1)).transpose(1, 2)
        return scaled_dot_product_attention(heads, heads, heads, attn_mask=self.bias)


class Masked(nn.Module):
    """Attention under a mask of each row of its input, one of all places or one of each."""

    def __init__(self, places):
        super().__init__()
        self.places = places

    def forward(self, x):
        heads = x.unflatten(-1, (HEADS, -1)).transpose(1, 2)
        mask = (x[:, :1, :PLACES] > 0)[:, None].expand(-1, 1, self.places, -1)
        return scaled_dot_product_attention(heads, heads, heads, attn_mask=mask)


@pytest.mark.parametrize("places", [1, PLACES])
def test_attention_under_a_mask_is_the_same_and_zeros_where_it_sees_nothing(places):
    exported = traced(attention := Masked(places), PLACES, 8)
    assert AttendByProducts()(exported.model).fired == 1
    assert "Attention" not in operators(exported.model)
    assert_computes(exported, attention)
    blind = {"x": -np.ones((2, PLACES, 8), np.float32)}
    np.testing.assert_array_equal(session(exported.model).run(None, blind)[0], 0)


def test_a_mask_is_turned_into_numbers_once(text_encoder):
    encoder = ir.load(text_encoder / "model.onnx")
    layers = operators(encoder).count("Attention")
    assert AttendByProducts()(encoder).fired == layers > 1
    assert operators(encoder).count("ReduceMax") == 1


def test_attention_that_is_an_output_keeps_its_name():
    exported = traced(attention := Attention(torch.linspace(-1, 1, PLACES**2).reshape(PLACES, PLACES)), PLACES, 8)
    assert AttendByProducts()(exported.model).fired == 1
    assert_computes(exported, attention)


def test_a_bias_with_a_row_that_sees_nothing_stays():
    unseen = torch.ones(PLACES, PLACES, dtype=torch.bool).triu()  # all but what is before a place
    exported = traced(attention := Attention(torch.zeros(PLACES, PLACES).masked_fill(unseen, -torch.inf)), PLACES, 8)
    (node,) = (node for node in exported.model.graph if node.op_type == "Attention")
    refused = [f"{node.outputs[0].name}: its bias has a row that sees nothing"]
    assert AttendByProducts()(exported.model).refused == refused
    assert_computes(exported, attention)


class SeesItsOwn(nn.Module):
    """Attention under a mask of booleans that it makes of its input, behind products that int8 rounds."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.query, self.key, self.value = (nn.Linear(8, 8) for _ in range(3))

    def forward(self, x):
        seen = (x[..., :1] > -0.5).transpose(-1, -2)
        return scaled_dot_product_attention(self.query(x), self.key(x.flip(-2)), self.value(x), seen)


@pytest.mark.skipif(not openvino_is_installed(), reason="OpenVINO is not installed")
@pytest.mark.parametrize("rounded", [False, True], ids=["fp32", "int8"])
def test_openvino_keeps_the_scores_of_what_a_mask_shows(tmp_path, rounded):
    exported = traced(SeesItsOwn(), 3, PLACES, 8)
    for rewrite in (PackProducts(), QuantiseDynamic()) if rounded else ():
        rewrite(exported.model)
    x = np.random.default_rng(0).standard_normal((5, 3, PLACES, 8)).astype(np.float32)
    expected = session(exported.model).run(None, {"x": x})[0]
    exported.write(tmp_path)
    (form,) = lower_graph(exported, tmp_path, ["openvino-cpu"])
    found = OpenVinoRunner(tmp_path / form.file, exported.signature).run({"x": x})["y0"].numpy()
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


class SeesOne(nn.Module):
    """Attention of some places to one key, which some of them see, or all or none."""

    def __init__(self, places):
        super().__init__()
        torch.manual_seed(0)
        self.places, self.output = places, nn.Linear(8, 8)

    def forward(self, x):
        heads = x.unflatten(-1, (HEADS, -1)).transpose(1, 2)
        seen = (x[:, None, : self.places, :1] > 0).expand(-1, HEADS, -1, -1)
        attended = scaled_dot_product_attention(heads * 5, heads[:, :, :1], heads[:, :, :1] + 1, attn_mask=seen)
        return self.output(attended.transpose(1, 2).flatten(2))


@pytest.mark.skipif(not openvino_is_installed(), reason="OpenVINO is not installed")
@pytest.mark.parametrize("narrow", [False, True], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("places", [1, PLACES])
def test_a_single_key_is_seen_where_its_mask_says_so(tmp_path, places, narrow):
    exported = traced(attention := SeesOne(places), PLACES, 8)
    x = torch.randn(8, PLACES, 8, generator=torch.Generator().manual_seed(0))
    wanted = copy.deepcopy(attention).double()(x.double()).detach().numpy()
    exported.write(tmp_path)
    (form,) = lower_graph(exported, tmp_path, ["openvino-cpu"])
    assert "Attention" not in operators(ir.load(tmp_path / form.file))
    runner = OpenVinoRunner(tmp_path / form.file, exported.signature, precision="bf16" if narrow else "f32")
    found = runner.run({"x": x.numpy()})["y0"].numpy()
    np.testing.assert_allclose(found, wanted, rtol=0, atol=0.05 if narrow else 1e-5)
