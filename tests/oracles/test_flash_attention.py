import pytest
import torch
from torch.nn import functional as F

from attendant.errors import ConfigError
from tests.models.agreement import agrees_in_both_precisions, both_precisions, difference
from tests.models.layers.attention_by_loops import attention_by_loops
from tests.oracles import flash_attention
from tests.oracles.flash_attention import flash_attend

BATCH, HEADS, QUERIES, KEYS, SIZE = 2, 4, 5, 7, 6
TILES = [(s, t) for s in (1, 2, 3, 5, 8) for t in (1, 2, 3, 4, 7, 64)]
every_tile = pytest.mark.parametrize("tiles", TILES, ids=str)


def queries_keys_values(dtype, groups=HEADS):
    generator = torch.Generator().manual_seed(0)
    shapes = (HEADS, QUERIES), (groups, KEYS), (groups, KEYS)
    return [torch.randn(BATCH, *shape, SIZE, generator=generator).to(dtype) for shape in shapes]


def random_mask():
    """About half of the pairs may see each other; one query sees nothing, another nothing but the last key."""
    mask = torch.rand(BATCH, HEADS, QUERIES, KEYS, generator=torch.Generator().manual_seed(1)) < 0.5
    mask[..., 3, 0] = True
    mask[0, 1, 2], mask[1, 2, 0] = False, False
    mask[1, 2, 0, -1] = True
    return mask


def logsumexp_of(q, k, mask, scale=SIZE**-0.5):
    return (q @ k.mT * scale).masked_fill(~mask, -torch.inf).logsumexp(-1)


def finite(logsumexp):
    """A number in place of −∞, from which nothing can be subtracted; no logarithm here is as large."""
    return logsumexp.clamp(min=-1000)


def tiled(q, k, v, mask, tiles, **settings):
    return flash_attend(q, k, v, mask, query_tile=tiles[0], key_tile=tiles[1], **settings)


@agrees_in_both_precisions
@every_tile
def test_every_tiling_equals_attention_written_as_loops(tiles, dtype):
    q, k, v = queries_keys_values(dtype)
    mask = random_mask()
    wanted = attention_by_loops(*(x.numpy() for x in (q, k, v)), mask.numpy())
    output, logsumexp = tiled(q, k, v, mask, tiles)
    assert (output.dtype, logsumexp.dtype) == (dtype, dtype)
    yield output, torch.from_numpy(wanted)
    yield finite(logsumexp), finite(logsumexp_of(q, k, mask))


@agrees_in_both_precisions
@every_tile
def test_every_tiling_equals_the_attention_of_pytorch(tiles, dtype):
    q, k, v = queries_keys_values(dtype)
    yield tiled(q, k, v, None, tiles)[0], F.scaled_dot_product_attention(q, k, v)
    mask = random_mask()
    wanted = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=0.3)
    yield tiled(q, k, v, mask, tiles, scale=0.3)[0], wanted


@pytest.mark.planted
def test_one_flipped_entry_of_the_mask_and_another_scale_are_seen_by_the_comparison():
    q, k, v = queries_keys_values(torch.float64)
    mask = random_mask()
    wanted = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    mask[1, 2, 3, 4] ^= True
    assert difference(flash_attend(q, k, v, mask)[0], wanted) > 1e-3
    mask[1, 2, 3, 4] ^= True
    assert difference(flash_attend(q, k, v, mask, scale=0.4)[0], wanted) > 1e-3


@pytest.mark.planted
def test_forgetting_to_rescale_is_seen_wherever_there_is_more_than_one_tile_of_keys(monkeypatch):
    q, k, v = queries_keys_values(torch.float64)
    wanted = F.scaled_dot_product_attention(q, k, v)
    monkeypatch.setattr(flash_attention, "rescale", lambda before, after: torch.ones_like(after))
    differences = {tiles: difference(tiled(q, k, v, None, tiles)[0], wanted) for tiles in TILES}
    assert {tiles for tiles, found in differences.items() if found > 1e-3} == {tiles for tiles in TILES if tiles[1] < 7}


@agrees_in_both_precisions
@pytest.mark.parametrize("tiles", [(2, 3), (64, 64)], ids=str)
@pytest.mark.parametrize("groups", [1, 2])
def test_query_heads_share_key_and_value_heads_as_in_pytorch(groups, tiles, dtype):
    q, k, v = queries_keys_values(dtype, groups)
    mask = random_mask()
    wanted = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)
    yield tiled(q, k, v, mask, tiles)[0], wanted


@pytest.mark.planted
def test_another_grouping_of_heads_is_seen_by_the_comparison():
    q, k, v = queries_keys_values(torch.float64, 2)
    wanted = F.scaled_dot_product_attention(q, k.repeat(1, 2, 1, 1), v.repeat(1, 2, 1, 1))
    assert difference(flash_attend(q, k, v)[0], wanted) > 0.1


@pytest.mark.parametrize("shape", [(QUERIES, KEYS), (BATCH, 1, QUERIES, KEYS), (BATCH, 1, 1, KEYS)], ids=str)
def test_a_mask_is_broadcast(shape):
    q, k, v = queries_keys_values(torch.float64, 2)
    mask = torch.rand(shape, generator=torch.Generator().manual_seed(2)) < 0.7
    mask[..., 0] = True
    wanted = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)
    assert difference(tiled(q, k, v, mask, (2, 3))[0], wanted) <= 1e-12


@both_precisions
@every_tile
def test_a_query_that_may_see_nothing_gets_zeros_and_no_logarithm(tiles, dtype):
    output, logsumexp = tiled(*queries_keys_values(dtype), random_mask(), tiles)
    assert (output[0, 1, 2] == 0).all()
    assert logsumexp.isinf().nonzero().tolist() == [[0, 1, 2]]
    assert logsumexp[0, 1, 2] == -torch.inf
    assert not output.isnan().any()


@agrees_in_both_precisions
def test_scores_far_beyond_the_exponential_do_not_overflow(dtype):
    q, k, v = queries_keys_values(dtype)
    q, k = 100 * q.sign(), 100 * k.sign()  # every score is exact in float32, and many are equal
    output, logsumexp = tiled(q, k, v, None, (2, 3), scale=0.25)
    yield output, F.scaled_dot_product_attention(q, k, v, scale=0.25)
    wanted = logsumexp_of(q, k, torch.ones(KEYS, dtype=torch.bool), scale=0.25)
    assert wanted.max() > 1e4
    yield logsumexp / wanted, torch.ones_like(wanted)


def test_half_precision_sums_in_float32():
    q, k, v = queries_keys_values(torch.float16)
    output, logsumexp = tiled(q, k, v, random_mask(), (2, 3))
    assert (output.dtype, logsumexp.dtype) == (torch.float16, torch.float32)
    exact, _ = flash_attend(*(x.double() for x in (q, k, v)), random_mask())
    # Rounded once, at the end: by half a unit of 11 bits, and by float32's own error, which is a thousandth of that.
    assert ((output - exact).abs() <= 1.001 * 2.0**-11 * exact.abs()).all()


def test_values_may_be_of_another_size_than_keys():
    q, k, v = queries_keys_values(torch.float64)
    wanted = F.scaled_dot_product_attention(q, k, v[..., :2])
    assert difference(tiled(q, k, v[..., :2], None, (2, 3))[0], wanted) <= 1e-12


def test_partial_results_over_split_keys_join_by_their_logarithms():
    q, k, v = queries_keys_values(torch.float64)
    (left, left_log), (right, right_log) = (
        flash_attend(q, k[..., t, :], v[..., t, :]) for t in (slice(3), slice(3, 7))
    )
    shares = torch.stack([left_log, right_log]).softmax(0)[..., None]
    assert difference(shares[0] * left + shares[1] * right, flash_attend(q, k, v)[0]) <= 1e-12


@pytest.mark.parametrize("tiles", [(2, 3), (64, 64)], ids=str)
def test_gradients_equal_those_of_pytorch(tiles):
    ours, theirs = ([x.requires_grad_() for x in queries_keys_values(torch.float64)] for _ in range(2))
    mask = random_mask()
    upward = torch.randn(BATCH, HEADS, QUERIES, SIZE, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    mask[0, 1, 2, 0] = True  # PyTorch has no gradient for a query that sees nothing
    tiled(*ours, mask, tiles)[0].backward(upward)
    F.scaled_dot_product_attention(*theirs, attn_mask=mask).backward(upward)
    for found, wanted in zip(ours, theirs, strict=True):
        assert difference(found.grad, wanted.grad) <= 1e-12


def test_a_query_that_may_see_nothing_has_a_gradient_of_zero():
    q, k, v = (x.requires_grad_() for x in queries_keys_values(torch.float64))
    tiled(q, k, v, random_mask(), (2, 3))[0].sum().backward()
    assert (q.grad[0, 1, 2] == 0).all()
    assert not any(x.grad.isnan().any() for x in (q, k, v))


@pytest.mark.parametrize("tiles", [(0, 1), (1, 0), (-1, 1)], ids=str)
def test_an_empty_tile_is_refused(tiles):
    with pytest.raises(ConfigError, match="tiles of at least one position"):
        tiled(*queries_keys_values(torch.float32), None, tiles)


def test_query_heads_that_cannot_be_grouped_are_refused():
    with pytest.raises(ConfigError, match="query heads that are a multiple of 3 key heads; found 4"):
        flash_attend(*queries_keys_values(torch.float32, 3))
