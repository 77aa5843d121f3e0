import math

import numpy as np
import pytest
import torch
from transformers import T5Config
from transformers.models.t5.modeling_t5 import T5Attention

from attendant.errors import ConfigError
from models.layers.relative_position import RelativePositionBias
from tests.models.agreement import agrees_in_both_precisions, difference, parameters_that_do_not_matter, randomised

HEADS = 3
DISTANCES = torch.arange(-600, 601)
every_direction = pytest.mark.parametrize("bidirectional", [True, False], ids=["bidirectional", "one-way"])


def bias_of(bidirectional=True, buckets=32, longest=128, dtype=torch.float64):
    return randomised(RelativePositionBias(HEADS, buckets, longest, bidirectional), dtype)


def buckets_found(layer):
    """The bucket of every distance, from a layer whose bias is the number of the bucket."""
    layer.weight.copy_(torch.arange(len(layer.weight))[:, None].expand_as(layer.weight))
    return layer(torch.zeros(1, 1, dtype=torch.int64), DISTANCES)[0, 0, 0].long()


def buckets_of_t5(bidirectional, buckets, longest):
    return T5Attention._relative_position_bucket(DISTANCES, bidirectional, buckets, longest)


@every_direction
@pytest.mark.parametrize(
    ("buckets", "longest"), [(32, 128), (8, 20), (4, 3), (64, 512), (32, 500), (6, 100), (14, 39)], ids=str
)
def test_every_distance_falls_into_the_bucket_that_t5_puts_it_in(bidirectional, buckets, longest):
    layer = bias_of(bidirectional, buckets, longest)
    assert torch.equal(buckets_found(layer), buckets_of_t5(bidirectional, buckets, longest))


@pytest.mark.parametrize(("bidirectional", "buckets"), [(True, 20), (False, 10)], ids=str)
def test_a_distance_at_an_edge_falls_where_the_rounding_of_float32_puts_it(bidirectional, buckets):
    found = buckets_found(bias_of(bidirectional, buckets, 160))
    assert torch.equal(found, buckets_of_t5(bidirectional, buckets, 160))
    assert found[DISTANCES == -10].item() == 6
    assert 5 + int(math.log(10 / 5) / math.log(160 / 5) * 5) == 5  # float64 comes out just below the exact 1


@pytest.mark.planted
@every_direction
@pytest.mark.parametrize(("buckets", "longest"), [(30, 128), (32, 126)], ids=str)
def test_other_buckets_and_another_longest_distance_are_seen_by_the_comparison(bidirectional, buckets, longest):
    layer = bias_of(bidirectional, buckets, longest)
    assert not torch.equal(buckets_found(layer), buckets_of_t5(bidirectional, 32, 128))


@pytest.mark.planted
def test_the_other_direction_is_seen_by_the_comparison():
    assert not torch.equal(buckets_found(bias_of(True)), buckets_of_t5(False, 32, 128))
    assert not torch.equal(buckets_found(bias_of(True)), buckets_of_t5(True, 32, 128).flip(0))


def bucket_by_formula(ahead, bidirectional, buckets, longest):
    if bidirectional and ahead > 0:
        return buckets // 2 + bucket_by_formula(-ahead, True, buckets, longest)
    n, distance = buckets // 2 if bidirectional else buckets, max(0, -ahead)
    exact = n // 2
    if distance < exact:
        return distance
    share = np.log(np.float32(distance) / np.float32(exact)) / np.float32(np.log(longest / exact))
    return min(n - 1, exact + int(share * np.float32(n - exact)))


@every_direction
def test_the_buckets_are_the_formula_written_as_a_loop(bidirectional):
    wanted = [bucket_by_formula(ahead, bidirectional, 32, 128) for ahead in DISTANCES.tolist()]
    assert buckets_found(bias_of(bidirectional)).tolist() == wanted


def compared_with_t5(bidirectional, dtype, starts=(0, 4)):
    """Our layer, and what gives its bias of a few queries behind each row's start, and T5's."""
    layer = bias_of(bidirectional, 8, 20, dtype)
    config = T5Config(num_heads=HEADS, relative_attention_num_buckets=8, relative_attention_max_distance=20)
    config.is_decoder = not bidirectional
    theirs = T5Attention(config, has_relative_attention_bias=True, layer_idx=0).to(dtype)
    theirs.relative_attention_bias.load_state_dict(layer.state_dict())
    wanted = torch.cat([theirs.compute_bias(5, 30, past_seen_tokens=start) for start in starts])
    queries = torch.tensor(starts)[:, None] + torch.arange(5)
    return layer, lambda late=0: (layer(queries + late, torch.arange(30)), wanted)


@agrees_in_both_precisions
@every_direction
def test_the_bias_equals_that_of_t5_with_the_same_weights(bidirectional, dtype):
    yield compared_with_t5(bidirectional, dtype)[1]()


@pytest.mark.planted
@every_direction
def test_the_weights_and_queries_one_position_late_are_seen_by_the_comparison_with_t5(bidirectional):
    layer, biases = compared_with_t5(bidirectional, torch.float64)
    assert parameters_that_do_not_matter(layer, lambda: difference(*biases())) == set()
    assert difference(*biases(late=1)) > 0.1


def test_only_the_weight_is_stored_and_it_begins_without_preference():
    state = RelativePositionBias(HEADS, 32, 128, True).state_dict()
    assert list(state) == ["weight"]
    assert torch.equal(state["weight"], torch.zeros(32, HEADS))


def test_half_precision_leaves_every_distance_in_its_bucket():
    layer = bias_of()
    before = buckets_found(layer)
    assert torch.equal(buckets_found(layer.half()), before)


@pytest.mark.parametrize(
    ("buckets", "longest", "bidirectional", "expected"),
    [
        (31, 128, True, "at least 4 buckets, even if bidirectional"),
        (2, 128, True, "at least 4 buckets, even if bidirectional"),
        (1, 128, False, "at least 2 buckets, even if bidirectional"),
        (32, 8, True, "a longest distance above 8"),
        (32, 16, False, "a longest distance above 16"),
    ],
    ids=str,
)
def test_buckets_that_do_not_split_are_refused(buckets, longest, bidirectional, expected):
    with pytest.raises(ConfigError) as caught:
        RelativePositionBias(HEADS, buckets, longest, bidirectional)
    assert caught.value.expected == expected
