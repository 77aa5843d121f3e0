"""What modules that are not ours attend to, in a plugin's words: padding behind a row's tokens, or a reason.

Legend: as export/passes/match/attention_reach.py.
"""

import onnx_ir as ir
import pytest
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from attendant.signature import GraphSignature, TensorSpec
from export.graph.onnx_graph import onnx_from_torch
from export.tensorrt.passes.fuse_flash_attention import FuseFlashAttention
from models.task_graph import TaskGraph
from tests.export.passes.modules import traced
from tests.export.tensorrt.plugins.evaluator import evaluated

POSITIONS, WIDTH, HEADS = 6, 64, 2


class Masked(nn.Module):
    """Self-attention under what a function makes of a mask [B, X]."""

    def __init__(self, mask):
        super().__init__()
        self.mask = mask

    def forward(self, x, valid):
        heads_BHTD = x.unflatten(-1, (HEADS, -1)).transpose(1, 2)
        return scaled_dot_product_attention(heads_BHTD, heads_BHTD, heads_BHTD, attn_mask=self.mask(valid))


def masked(mask, time=POSITIONS, width=None):
    """The graph of a module under such a mask, whose second axis is as long as the positions if nothing is said."""
    specs = (
        TensorSpec(name="x", dtype="float32", axes=("batch", time, WIDTH)),
        TensorSpec(name="valid", dtype="bool", axes=("batch", time if width is None else width)),
    )
    output = TensorSpec(name="y", dtype="float32", axes=("batch", HEADS, time, WIDTH // HEADS))
    signature = GraphSignature(name="model", inputs=specs, outputs=(output,))
    return onnx_from_torch(TaskGraph(signature=signature, module=Masked(mask).eval(), largest={"time": 64}))


def of_keys(valid):
    return valid[:, None, None]


def of_keys_repeated(valid):
    return valid[:, None, None].expand(-1, HEADS, valid.shape[1], -1)


def of_queries(valid):
    return valid[:, None, :, None]


def of_queries_repeated(valid):
    return valid[:, None, :, None].expand(-1, 1, -1, valid.shape[1])


def of_heads(valid):
    return valid[:, :, None, None]


def added(valid):
    return valid[:, None, None].float().expand(-1, 1, valid.shape[1], -1)


def added_once(valid):
    return valid[:, None, None].float()


@pytest.mark.parametrize("mask", [of_keys, of_keys_repeated])
@pytest.mark.parametrize("time", ["time", POSITIONS])
def test_padding_behind_a_rows_tokens_is_how_many_there_are(tmp_path, mask, time):
    exported = masked(mask, time)
    assert FuseFlashAttention(padded_behind=True)(exported.model).fired == 1
    ir.save(exported.model, tmp_path / "model.onnx")
    x, valid = torch.randn(3, POSITIONS, WIDTH), torch.arange(POSITIONS) < torch.tensor([[6], [1], [4]])
    (found,) = evaluated(tmp_path / "model.onnx", {"x": x.numpy(), "valid": valid.numpy()}).values()
    torch.testing.assert_close(torch.from_numpy(found), Masked(mask)(x, valid), rtol=0, atol=1e-5)


@pytest.mark.parametrize("mask", [of_keys, of_keys_repeated])
def test_of_a_clients_own_mask_nothing_says_where_padding_stands(mask):
    outcome = FuseFlashAttention()(masked(mask).model)
    assert outcome.fired == 0 and "nothing says that padding stands behind" in outcome.refused[0]


@pytest.mark.parametrize(
    ("mask", "width"),
    [
        (of_queries, None),
        (of_queries_repeated, None),
        (of_heads, HEADS),
        (of_keys, 1),
        (added, None),
        (added_once, None),
    ],
)
def test_other_masks_are_refused_whoever_makes_them(mask, width):
    outcome = FuseFlashAttention(padded_behind=True)(masked(mask, width=width).model)
    assert outcome.fired == 0 and "its mask is no padding" in outcome.refused[0]


class Wide(nn.Module):
    """Heads whose values are of another size."""

    def forward(self, x):
        heads = x.unflatten(-1, (HEADS, -1)).transpose(1, 2)
        return scaled_dot_product_attention(heads, heads, heads[..., :8])


def test_values_of_another_size_than_queries_and_keys_are_refused():
    outcome = FuseFlashAttention()(traced(Wide(), POSITIONS, WIDTH).model)
    assert outcome.fired == 0 and "2 heads of 8 beside 2 of 32" in outcome.refused[0]
