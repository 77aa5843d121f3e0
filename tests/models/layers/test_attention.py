import numpy as np
import pytest
import torch
from torch import nn

from attendant.errors import ConfigError
from models.layers.attend import Attend, attend, attend_by, attend_in_groups, attention_weights
from models.layers.attention import MultiHeadAttention
from models.layers.masks import causal_mask
from tests.models.agreement import agrees_in_both_precisions, difference, parameters_that_do_not_matter, randomised
from tests.models.layers.attention_by_loops import attention_by_loops

BATCH, HEADS, QUERIES, KEYS, SIZE = 2, 3, 4, 5, 6
WIDTH = HEADS * SIZE


def queries_keys_values(dtype, queries=QUERIES):
    generator = torch.Generator().manual_seed(0)
    lengths = queries, KEYS, KEYS
    return [torch.randn(BATCH, HEADS, length, SIZE, generator=generator).to(dtype) for length in lengths]


def random_mask():
    """About half of the pairs may see each other, and every query sees the first key."""
    mask = torch.rand(BATCH, HEADS, QUERIES, KEYS, generator=torch.Generator().manual_seed(1)) < 0.5
    mask[..., 0] = True
    return mask


def looped(q, k, v, mask):
    return torch.from_numpy(attention_by_loops(*(tensor.numpy() for tensor in (q, k, v)), mask.numpy()))


@agrees_in_both_precisions
def test_attention_equals_its_formula_written_as_loops(dtype):
    q, k, v = queries_keys_values(dtype)
    mask = random_mask()
    yield attend(q, k, v, mask), looped(q, k, v, mask)
    everything = torch.ones_like(mask)
    yield attend(q, k, v), looped(q, k, v, everything)


@pytest.mark.planted
def test_one_flipped_entry_of_the_mask_is_seen_by_the_comparison_with_the_loops():
    q, k, v = queries_keys_values(torch.float64)
    mask = random_mask()
    wanted = looped(q, k, v, mask)
    mask[1, 2, 3, 4] ^= True
    assert difference(attend(q, k, v, mask), wanted) > 1e-3


@agrees_in_both_precisions
def test_a_query_that_may_see_nothing_gets_zeros(dtype):
    q, k, v = queries_keys_values(dtype)
    mask = random_mask()
    mask[0, :, 2] = False
    out = attend(q, k, v, mask)
    assert (out[0, :, 2] == 0).all()
    yield out, looped(q, k, v, mask)


@pytest.mark.planted
@agrees_in_both_precisions
@pytest.mark.parametrize("groups", [1, 2])
def test_grouped_heads_equal_every_head_with_its_own_copy_of_the_groups_keys_and_values(groups, dtype):
    heads, share = 4, 4 // groups
    generator = torch.Generator().manual_seed(0)
    q = torch.randn(BATCH, heads, QUERIES, SIZE, generator=generator).to(dtype)
    k, v = torch.randn(2, BATCH, groups, KEYS, SIZE, generator=generator).to(dtype)
    mask = torch.ones(BATCH, heads, QUERIES, KEYS, dtype=torch.bool).tril(1)
    # Query head h belongs to group ⌊h G / H⌋: neighbours share.
    copied = [torch.stack([x[:, head // share] for head in range(heads)], dim=1) for x in (k, v)]
    wanted = looped(q, *copied, mask)
    yield attend(q, k, v, mask), wanted
    if groups > 1:
        strided = [torch.stack([x[:, head % groups] for head in range(heads)], dim=1) for x in (k, v)]
        assert difference(looped(q, *strided, mask), wanted) > 1e-3


@pytest.mark.planted
@agrees_in_both_precisions
def test_a_bias_is_added_to_the_scaled_scores_and_a_query_that_may_see_nothing_still_gets_zeros(dtype):
    q, k, v = queries_keys_values(dtype)
    mask = random_mask()
    mask[0, 1, 2] = False
    bias = torch.randn(1, HEADS, QUERIES, KEYS, generator=torch.Generator().manual_seed(5)).to(dtype)
    arrays = (tensor.numpy() for tensor in (q, k, v))
    wanted = torch.from_numpy(attention_by_loops(*arrays, mask.numpy(), bias.expand_as(mask).numpy()))
    found = attend(q, k, v, mask, bias)
    yield found, wanted
    assert (found[0, 1, 2] == 0).all()
    assert difference(attend(q, k, v, mask, 1.1 * bias), wanted) > 1e-3


@pytest.mark.planted
@agrees_in_both_precisions
def test_a_scale_takes_the_place_of_the_roots(dtype):
    q, k, v = queries_keys_values(dtype)
    mask = random_mask()
    wanted = looped(q * SIZE**0.5, k, v, mask)
    yield attend(q, k, v, mask, scale=1.0), wanted
    assert difference(attend(q, k, v, mask), wanted) > 1e-3


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
    """Our layer, and what gives its answer now, and that of PyTorch's layer with the weights that it began with."""
    generator = torch.Generator().manual_seed(2)
    inputs = torch.randn(BATCH, QUERIES, WIDTH, generator=generator).to(dtype)
    source = torch.randn(BATCH, KEYS, WIDTH, generator=generator).to(dtype)
    allowed = random_mask()[:, :1]
    layer = randomised(MultiHeadAttention(WIDTH, HEADS, bias), dtype)
    theirs = torch_attention_with_weights_of(layer, bias, dtype)
    refused = ~allowed.expand(-1, HEADS, -1, -1).flatten(0, 1)
    wanted, _ = theirs(inputs, source, source, attn_mask=refused, need_weights=False)
    return layer, lambda: (layer(inputs, source, allowed), wanted)


@agrees_in_both_precisions
@pytest.mark.parametrize("bias", [True, False], ids=["with biases", "without biases"])
def test_multi_head_attention_equals_that_of_pytorch_with_the_same_weights(dtype, bias):
    yield compared_with_torch(dtype, bias)[1]()


@pytest.mark.planted
def test_a_change_of_any_parameter_but_the_bias_of_the_keys_is_seen_by_the_comparison_with_pytorch():
    layer, answers = compared_with_torch(torch.float64, bias=True)
    # That bias adds the same to every score of a query, which the softmax takes away again.
    assert parameters_that_do_not_matter(layer, lambda: difference(*answers())) == {"key.bias"}


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


@pytest.mark.planted
@agrees_in_both_precisions
def test_keys_and_values_of_another_width_equal_those_of_pytorch(dtype):
    layer = randomised(MultiHeadAttention(WIDTH, HEADS, source_width=7), dtype)
    theirs = (
        nn.MultiheadAttention(WIDTH, HEADS, batch_first=True, kdim=7, vdim=7).to(dtype).eval().requires_grad_(False)
    )
    for name, ours in (("q", layer.query), ("k", layer.key), ("v", layer.value)):
        getattr(theirs, f"{name}_proj_weight").copy_(ours.weight)
    theirs.in_proj_bias.copy_(torch.cat([layer.query.bias, layer.key.bias, layer.value.bias]))
    theirs.out_proj.load_state_dict(layer.output.state_dict())
    generator = torch.Generator().manual_seed(3)
    inputs = torch.randn(BATCH, QUERIES, WIDTH, generator=generator).to(dtype)
    source = torch.randn(BATCH, KEYS, 7, generator=generator).to(dtype)
    wanted, _ = theirs(inputs, source, source, need_weights=False)
    yield layer(inputs, source), wanted
    layer.key.weight[0, 6] += 0.1
    assert difference(layer(inputs, source), wanted) > 1e-5


def test_heads_may_be_wider_than_their_share_of_the_model_and_normalised():
    layer = randomised(
        MultiHeadAttention(WIDTH, 4, False, kv_heads=2, head_size=8, output_bias=True, query_key_eps=1e-6),
        torch.float64,
    )
    shapes = {name: tuple(parameter.shape) for name, parameter in layer.named_parameters()}
    assert shapes == {
        "query.weight": (32, WIDTH),
        "key.weight": (16, WIDTH),
        "value.weight": (16, WIDTH),
        "output.weight": (WIDTH, 32),
        "output.bias": (WIDTH,),
        "query_norm.weight": (8,),
        "key_norm.weight": (8,),
    }
    tokens = torch.randn(BATCH, KEYS, WIDTH, generator=torch.Generator().manual_seed(6), dtype=torch.float64)
    keys, _ = layer.keys_and_values(tokens)
    lengths = (keys / layer.key_norm.weight).square().mean(-1)
    assert difference(lengths, torch.ones_like(lengths)) < 1e-4


def test_heads_that_cannot_be_grouped_are_refused():
    with pytest.raises(ConfigError, match="4 heads to be a multiple of the key and value heads; found 3"):
        MultiHeadAttention(16, 4, kv_heads=3)


def test_a_width_that_does_not_divide_into_the_heads_is_refused():
    with pytest.raises(ConfigError, match=r"multiple of 3 heads; found 16; correct"):
        MultiHeadAttention(16, 3)


@pytest.mark.parametrize("groups", [4, 2])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_an_observer_is_told_the_weights_that_the_values_are_mixed_by(groups, biased, masked):
    q, k, v = (torch.randn(2, heads, length, 8).double() for heads, length in ((4, 3), (groups, 5), (groups, 5)))
    mask = torch.tensor([[True, True, False, True, False], [False] * 5, [True] * 5]) if masked else None
    bias = torch.randn(1, 4, 3, 5).double() if biased else None
    layer, told = Attend(), []
    unobserved = layer(q, k, v, mask, bias)
    layer.observer = told.append
    assert difference(layer(q, k, v, mask, bias), unobserved) <= 1e-12
    (weights,) = told
    assert torch.equal(weights, attention_weights(q, k, mask, bias))  # the same computation twice, in one process
    seen = mask.any(-1).double() if masked else torch.ones(3).double()
    assert difference(weights.sum(-1), seen.expand(2, 4, 3)) <= 1e-12
    assert difference(weights @ v.repeat_interleave(4 // groups, dim=1), unobserved) <= 1e-12


@pytest.mark.parametrize("queries", [1, 3])
@pytest.mark.parametrize("groups", [4, 2, 1])
@pytest.mark.parametrize("masks", [None, 1, 4])
@pytest.mark.parametrize("biased", [False, True])
def test_attention_in_groups_is_attention(queries, groups, masks, biased):
    generator = torch.Generator().manual_seed(0)
    sizes = (4, queries), (groups, KEYS), (groups, KEYS)
    q, k, v = (torch.randn(BATCH, *size, SIZE, generator=generator, dtype=torch.float64) for size in sizes)
    mask = None if masks is None else torch.rand(BATCH, masks, queries, KEYS, generator=generator) < 0.7
    bias = torch.randn(1, 4, queries, KEYS, generator=generator, dtype=torch.float64) if biased else None
    assert difference(attend_in_groups(q, k, v, mask, bias, 0.3), attend(q, k, v, mask, bias, 0.3)) <= 1e-12


def test_a_kernel_takes_the_place_of_attention_in_every_layer_inside_a_module():
    asked = []

    def kernel(q, k, v, mask, bias, scale):
        asked.append((mask, bias, scale))
        return 2 * attend(q, k, v, mask, bias, scale)

    layers = nn.ModuleList([Attend(0.3), Attend()])
    attend_by(layers, kernel)
    q, k, v = queries_keys_values(torch.float64)
    assert torch.equal(layers[0](q, k, v), 2 * attend(q, k, v, scale=0.3))  # a power of two rounds nothing
    layers[1](q, k, v, random_mask())
    assert (asked[0], asked[1][1:]) == ((None, None, 0.3), (None, None))
