import numpy as np
import pytest
import torch
from torch import nn

from models.errors import ConfigError
from models.layers.attention import MultiHeadAttention, attend, causal_mask, key_mask
from tests.models.agreement import TOLERANCES, both_precisions, difference, parameters_that_do_not_matter, randomised
from tests.models.layers.attention_by_loops import attention_by_loops

BATCH, HEADS, QUERIES, KEYS, SIZE = 2, 3, 4, 5, 6
WIDTH = HEADS * SIZE


def queries_keys_values(dtype, queries=QUERIES):
    generator = torch.Generator().manual_seed(0)
    lengths = queries, KEYS, KEYS
    return [torch.randn(BATCH, HEADS, length, SIZE, generator=generator, dtype=dtype) for length in lengths]


def random_mask():
    """About half of the pairs may see each other, and every query sees the first key."""
    mask = torch.rand(BATCH, HEADS, QUERIES, KEYS, generator=torch.Generator().manual_seed(1)) < 0.5
    mask[..., 0] = True
    return mask


def looped(q, k, v, mask):
    return torch.from_numpy(attention_by_loops(*(tensor.double().numpy() for tensor in (q, k, v)), mask.numpy()))


@both_precisions
def test_attention_equals_its_formula_written_as_loops(dtype):
    q, k, v = queries_keys_values(dtype)
    mask = random_mask()
    assert difference(attend(q, k, v, mask).double(), looped(q, k, v, mask)) <= TOLERANCES[dtype]
    everything = torch.ones_like(mask)
    assert difference(attend(q, k, v).double(), looped(q, k, v, everything)) <= TOLERANCES[dtype]


def test_one_flipped_entry_of_the_mask_is_seen_by_the_comparison_with_the_loops():
    q, k, v = queries_keys_values(torch.float64)
    mask = random_mask()
    wanted = looped(q, k, v, mask)
    mask[1, 2, 3, 4] ^= True
    assert difference(attend(q, k, v, mask), wanted) > 1e-3


@both_precisions
def test_a_query_that_may_see_nothing_gets_zeros(dtype):
    q, k, v = queries_keys_values(dtype)
    mask = random_mask()
    mask[0, :, 2] = False
    out = attend(q, k, v, mask)
    assert (out[0, :, 2] == 0).all()
    assert difference(out.double(), looped(q, k, v, mask)) <= TOLERANCES[dtype]


def test_the_causal_mask_lets_a_position_see_itself_and_its_past():
    seen = causal_mask(3)
    assert (seen.dtype, seen.shape) == (torch.bool, (1, 1, 3, 3))
    assert seen[0, 0].tolist() == [[True, False, False], [True, True, False], [True, True, True]]


def test_under_the_causal_mask_no_output_depends_on_a_later_key_or_value():
    q, k, v = queries_keys_values(torch.float64, queries=KEYS)
    before = attend(q, k, v, causal_mask(KEYS))
    k[:, :, 3], v[:, :, 3] = 7.0, -7.0
    after = attend(q, k, v, causal_mask(KEYS))
    assert torch.equal(after[:, :, :3], before[:, :, :3])
    assert ((after[:, :, 3:] - before[:, :, 3:]).abs().amax(-1) > 1e-3).all()


def test_the_key_mask_has_one_written_out_row_a_query():
    valid = torch.tensor([[True, True, False], [True, False, False]])
    mask = key_mask(valid, queries=2)
    assert mask.tolist() == [[[row, row]] for row in valid.tolist()]


def test_the_key_mask_hides_padding_as_if_it_were_not_there():
    q, k, v = queries_keys_values(torch.float64)
    lengths = (5, 3)
    valid = torch.arange(KEYS) < torch.tensor(lengths)[:, None]
    masked = attend(q, k, v, key_mask(valid, QUERIES))
    for row, length in enumerate(lengths):
        cut = attend(q[row, None], k[row, None, :, :length], v[row, None, :, :length])
        assert difference(masked[row, None], cut) <= 1e-12
    assert difference(masked[1], attend(q, k, v)[1]) > 1e-3


def torch_attention_with_weights_of(layer, bias, dtype):
    theirs = nn.MultiheadAttention(WIDTH, HEADS, bias=bias, batch_first=True).to(dtype).eval()
    projections = layer.query, layer.key, layer.value
    weights = {
        "in_proj_weight": torch.cat([projection.weight for projection in projections]),
        "out_proj.weight": layer.output.weight,
    }
    if bias:
        weights["in_proj_bias"] = torch.cat([projection.bias for projection in projections])
        weights["out_proj.bias"] = layer.output.bias
    theirs.load_state_dict({name: tensor.clone() for name, tensor in weights.items()})
    return theirs.requires_grad_(False)


def compared_with_torch(dtype, bias):
    """Our layer, and a function that gives its difference from PyTorch's layer with our weights of now."""
    generator = torch.Generator().manual_seed(2)
    inputs = torch.randn(BATCH, QUERIES, WIDTH, generator=generator, dtype=dtype)
    source = torch.randn(BATCH, KEYS, WIDTH, generator=generator, dtype=dtype)
    allowed = random_mask()[:, :1]
    layer = randomised(MultiHeadAttention(WIDTH, HEADS, bias), dtype)
    theirs = torch_attention_with_weights_of(layer, bias, dtype)
    refused = ~allowed.expand(-1, HEADS, -1, -1).flatten(0, 1)
    wanted, _ = theirs(inputs, source, source, attn_mask=refused, need_weights=False)
    return layer, lambda: difference(layer(inputs, source, allowed), wanted)


@both_precisions
@pytest.mark.parametrize("bias", [True, False], ids=["with biases", "without biases"])
def test_multi_head_attention_equals_that_of_pytorch_with_the_same_weights(dtype, bias):
    _, compare = compared_with_torch(dtype, bias)
    assert compare() <= TOLERANCES[dtype]


def test_a_change_of_any_parameter_but_the_bias_of_the_keys_is_seen_by_the_comparison_with_pytorch():
    layer, compare = compared_with_torch(torch.float64, bias=True)
    # That bias adds the same to every score of a query, which the softmax takes away again.
    assert parameters_that_do_not_matter(layer, compare, 1e-4) == {"key.bias"}


def test_self_attention_without_a_mask_follows_a_permutation_of_its_tokens():
    layer = randomised(MultiHeadAttention(WIDTH, HEADS), torch.float64)
    tokens = torch.randn(BATCH, KEYS, WIDTH, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    order = torch.tensor([3, 0, 4, 1, 2])
    permuted, mixed = tokens[:, order], layer(tokens, tokens)
    assert difference(layer(permuted, permuted), mixed[:, order]) <= 1e-12
    masked = layer(permuted, permuted, causal_mask(KEYS))
    assert difference(masked, layer(tokens, tokens, causal_mask(KEYS))[:, order]) > 1e-3


def test_projected_keys_and_values_can_be_kept_for_later_queries():
    layer = randomised(MultiHeadAttention(WIDTH, HEADS), torch.float64)
    source = torch.randn(BATCH, KEYS, WIDTH, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    keys, values = layer.keys_and_values(source)
    assert keys.shape == values.shape == (BATCH, HEADS, KEYS, SIZE)
    flat = (source @ layer.key.weight.T + layer.key.bias).numpy()
    by_head = np.stack([flat[..., head * SIZE : (head + 1) * SIZE] for head in range(HEADS)], axis=1)
    assert difference(keys, torch.from_numpy(by_head)) <= 1e-12
    one_by_one = [layer.attend_to(source[:, [s]], keys, values, None) for s in range(KEYS)]
    assert difference(torch.cat(one_by_one, dim=1), layer(source, source)) <= 1e-12


def test_a_width_that_does_not_divide_into_the_heads_is_refused():
    with pytest.raises(ConfigError, match=r"multiple of 3 heads; found 16; change"):
        MultiHeadAttention(16, 3)
