import pytest
import torch
from torch import nn

from models.layers.vision_block import VisionBlock
from tests.models.agreement import agrees_in_both_precisions, difference, parameters_that_do_not_matter, randomised

WIDTH, HEADS, MLP_WIDTH, EPS = 8, 2, 12, 1e-5
every_bias = pytest.mark.parametrize("query_bias", [True, False], ids=["with biases", "without biases"])


def block_of(dtype=torch.float64, query_bias=True, dropout=0.0):
    torch.manual_seed(0)
    return randomised(VisionBlock(WIDTH, HEADS, MLP_WIDTH, EPS, dropout, query_bias), dtype)


def tokens_of(dtype=torch.float64):
    return torch.randn(3, 5, WIDTH, generator=torch.Generator().manual_seed(1)).to(dtype)


def stranger_from_ours(ours):
    theirs = nn.TransformerEncoderLayer(
        WIDTH, HEADS, MLP_WIDTH, 0.0, "gelu", layer_norm_eps=EPS, batch_first=True, norm_first=True
    )
    theirs.to(ours.mlp.expand.weight.dtype).requires_grad_(False)
    attention = ours.attention
    thirds = (attention.query, attention.key, attention.value)
    theirs.self_attn.in_proj_weight.copy_(torch.cat([third.weight for third in thirds]))
    biases = [torch.zeros(WIDTH) if third.bias is None else third.bias for third in thirds]
    theirs.self_attn.in_proj_bias.copy_(torch.cat(biases))
    for part, mine in (
        (theirs.self_attn.out_proj, attention.output),
        (theirs.linear1, ours.mlp.expand),
        (theirs.linear2, ours.mlp.contract),
        (theirs.norm1, ours.attention_residual.norm),
        (theirs.norm2, ours.mlp_residual.norm),
    ):
        part.load_state_dict(mine.state_dict())
    return theirs


@agrees_in_both_precisions
@every_bias
def test_it_is_torchs_pre_norm_encoder_layer_with_gelu(query_bias, dtype):
    block, tokens = block_of(dtype, query_bias), tokens_of(dtype)
    yield block(tokens), stranger_from_ours(block)(tokens)


@pytest.mark.planted
@every_bias
def test_a_change_of_any_parameter_but_the_bias_of_keys_is_seen(query_bias):
    block, tokens = block_of(query_bias=query_bias), tokens_of()
    wanted = stranger_from_ours(block)(tokens)
    blind = parameters_that_do_not_matter(block, lambda: difference(block(tokens), wanted))
    assert blind == ({"attention.key.bias"} if query_bias else set())


def test_the_output_projection_has_a_bias_where_queries_have_none():
    names = {name for name, _ in block_of(query_bias=False).named_parameters() if "attention." in name}
    assert {name for name in names if name.endswith("bias")} == {"attention.output.bias"}


def test_another_order_of_tokens_orders_the_outputs_alike():
    block, tokens = block_of(), tokens_of()
    order = [3, 0, 4, 1, 2]
    assert difference(block(tokens[:, order]), block(tokens)[:, order]) <= 1e-12
