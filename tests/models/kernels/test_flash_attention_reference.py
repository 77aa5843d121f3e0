import pytest
import torch
from torch.nn import functional as F

from models.kernels.flash_attention_reference import flash_attention_reference, visible_keys
from models.layers.attend import attend
from tests.models.agreement import difference
from tests.models.kernels.cases import attention_inputs
from tests.oracles.flash_attention import flash_attend

SIZES = {"lengths": [9, 5, 2], "heads": 6, "kv_heads": 2, "size": 10, "queries": 4, "capacity": 11}
both_masks = pytest.mark.parametrize("causal", [True, False], ids=["causal", "full"])


def inputs(**changed):
    q, k, v, lengths = attention_inputs("float32", "cpu", **{**SIZES, **changed})
    return *(x.double() for x in (q, k, v)), lengths


def mask_by_loops(lengths, causal):
    """The last query of a row stands at its last position."""
    mask = torch.zeros(len(lengths), 1, SIZES["queries"], SIZES["capacity"], dtype=torch.bool)
    for b, length in enumerate(lengths):
        for s in range(SIZES["queries"]):
            position = length - SIZES["queries"] + s
            mask[b, 0, s, : min(length, position + 1) if causal else length] = position >= 0 or not causal
    return mask


@both_masks
def test_the_mask_is_what_loops_over_positions_say(causal):
    assert torch.equal(
        visible_keys(torch.tensor(SIZES["lengths"]), 4, 11, causal), mask_by_loops(SIZES["lengths"], causal)
    )


@both_masks
def test_the_reference_equals_the_attention_of_pytorch_and_the_layers(causal):
    q, k, v, lengths = inputs()
    mask = mask_by_loops(SIZES["lengths"], causal)
    found = flash_attention_reference(q, k, v, lengths, causal, scale=0.3)
    k, v = k.nan_to_num(), v.nan_to_num()
    assert difference(found, attend(q, k, v, mask, scale=0.3)) < 1e-12
    assert difference(found, flash_attend(q, k, v, mask, scale=0.3)[0]) < 1e-12
    pytorch = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=0.3, enable_gqa=True)
    assert difference(found, pytorch) < 1e-12


def test_the_scale_is_one_over_the_root_of_the_head_size_if_not_given():
    q, k, v, lengths = inputs()
    given = flash_attention_reference(q, k, v, lengths, scale=10**-0.5)
    assert torch.equal(flash_attention_reference(q, k, v, lengths), given)  # the same computation twice, in one process


def test_a_query_that_sees_nothing_yields_zeros_and_what_lies_behind_the_length_is_not_read():
    found = flash_attention_reference(*inputs(), causal=True)
    assert not found.isnan().any()
    assert not found[2, :, :2].any()
    assert found[2, :, 2:].all()
