from functools import partial

import pytest
import torch

from models.layers.attention import MultiHeadAttention
from models.layers.blocks import DecoderBlock, EncoderBlock
from models.layers.kv_cache import remember_nothing
from models.layers.masks import causal_mask, key_mask
from models.layers.mlp import MLP
from models.layers.residual import RESIDUALS
from tests.models.agreement import difference, randomised

WIDTH, HEADS = 8, 2
GENERATOR = torch.Generator().manual_seed(1)
SOURCE, TARGET = (torch.randn(2, length, WIDTH, generator=GENERATOR, dtype=torch.float64) for length in (5, 4))
SOURCE_MASK = torch.arange(5) < torch.tensor([5, 2])[:, None]
SOURCE_BIAS, TARGET_BIAS = (torch.randn(2, HEADS, n, n, generator=GENERATOR, dtype=torch.float64) for n in (5, 4))
every_order = pytest.mark.parametrize("order", RESIDUALS)


def block_of(kind, order):
    torch.manual_seed(0)
    attentions = [MultiHeadAttention(WIDTH, HEADS) for _ in range(2 if kind is DecoderBlock else 1)]
    return randomised(kind(*attentions, MLP(WIDTH, 12, "relu"), partial(RESIDUALS[order], WIDTH, 1e-5)), torch.float64)


def sublayer_by_hand(order, residual, hidden, sublayer):
    norm = residual.norm
    return norm(hidden + sublayer(hidden)) if order == "post" else hidden + sublayer(norm(hidden))


@every_order
@pytest.mark.parametrize("bias", [None, SOURCE_BIAS], ids=["without bias", "with bias"])
def test_an_encoder_block_is_self_attention_and_then_the_mlp(order, bias):
    block, mask = block_of(EncoderBlock, order), key_mask(SOURCE_MASK, 5)
    hidden = sublayer_by_hand(order, block.attention_residual, SOURCE, lambda x: block.attention(x, x, mask, bias))
    wanted = sublayer_by_hand(order, block.mlp_residual, hidden, block.mlp)
    assert difference(block(SOURCE, mask, bias), wanted) <= 1e-12


@every_order
@pytest.mark.parametrize("bias", [None, TARGET_BIAS], ids=["without bias", "with bias"])
def test_a_decoder_block_has_cross_attention_in_between_which_no_bias_touches(order, bias):
    block, mask, cross_mask = block_of(DecoderBlock, order), causal_mask(4), key_mask(SOURCE_MASK, 4)
    hidden = sublayer_by_hand(order, block.self_residual, TARGET, lambda x: block.self_attention(x, x, mask, bias))
    hidden = sublayer_by_hand(
        order, block.cross_residual, hidden, lambda x: block.cross_attention(x, SOURCE, cross_mask)
    )
    wanted = sublayer_by_hand(order, block.mlp_residual, hidden, block.mlp)
    cross = block.cross_attention.keys_and_values(SOURCE)
    assert difference(block(TARGET, remember_nothing, mask, cross, cross_mask, bias), wanted) <= 1e-12


def test_the_order_of_norm_and_residual_and_the_bias_make_a_difference():
    mask = key_mask(SOURCE_MASK, 5)
    found = [block_of(EncoderBlock, order)(SOURCE, mask, bias) for order in RESIDUALS for bias in (None, SOURCE_BIAS)]
    assert all(difference(one, other) > 1e-3 for i, one in enumerate(found) for other in found[:i])


@pytest.mark.planted
def test_a_block_attends_to_what_its_memory_returns():
    block, mask, cross_mask = block_of(DecoderBlock, "pre"), causal_mask(4), key_mask(SOURCE_MASK, 4)
    cross = block.cross_attention.keys_and_values(SOURCE)
    seen = []

    def forget_values(keys, values):
        seen.append(keys.shape)
        return keys, torch.zeros_like(values)

    forgetful = block(TARGET, forget_values, mask, cross, cross_mask)
    assert seen == [(2, HEADS, 4, WIDTH // HEADS)]
    assert difference(forgetful, block(TARGET, remember_nothing, mask, cross, cross_mask)) > 1e-3


@pytest.mark.parametrize(("kind", "residuals"), [(EncoderBlock, 2), (DecoderBlock, 3)])
def test_every_sublayer_has_a_residual_of_its_own(kind, residuals):
    norms = {name for name, _ in block_of(kind, "post").named_parameters() if name.endswith("residual.norm.weight")}
    assert len(norms) == residuals
