import dataclasses
import json
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attendant.config import config_from_json, config_to_json
from attendant.errors import ConfigError
from models.layers.rope import Rope, RopeConfig
from tests.models.agreement import agrees_in_both_precisions, difference
from tests.models.layers.rotary_by_others import (
    TRAINED,
    frequencies_of_llama,
    llama_of,
    rotated_by_complex_numbers,
    rotated_by_gptj,
    rotated_by_llama,
)

SIZE = 16  # of a head
BOUNDS = {"low_frequency_factor": 1.0, "high_frequency_factor": 4.0, "original_length": TRAINED}
SCALINGS = {
    "none": {},
    "linear": {"factor": 4.0},
    "ntk": {"factor": 4.0},
    "llama3": {"factor": 8.0, **BOUNDS},
}
every_scaling = pytest.mark.parametrize("scaling", SCALINGS)
every_layout = pytest.mark.parametrize("layout", ["half", "interleaved"])


def config_of(scaling, **fields):
    return RopeConfig(theta=500.0, scaling=scaling, **(SCALINGS[scaling] | fields))


def sample(dtype):
    generator = torch.Generator().manual_seed(0)
    heads = torch.randn(2, 3, 5, SIZE, generator=generator).to(dtype)
    return heads, torch.tensor([[0, 1, 2, 3, 4], [100, 3, 257, 0, 8]])


def rotated(config, heads, positions):
    return Rope(SIZE, config).to(heads.dtype)(positions).apply(heads)


@every_scaling
def test_frequencies_are_those_of_the_published_implementation_to_the_last_bit(scaling):
    config = config_of(scaling)
    # The same operations on the same numbers.
    assert torch.equal(Rope(SIZE, config).frequencies, frequencies_of_llama(config, SIZE))


@pytest.mark.planted
@pytest.mark.parametrize(
    ("scaling", "other"),
    [
        ("none", {"theta": 501.0}),
        ("linear", {"factor": 4.1}),
        ("ntk", {"factor": 5.0}),
        ("llama3", {"factor": 8.1}),
        ("llama3", {"low_frequency_factor": 0.9}),
        ("llama3", {"high_frequency_factor": 4.1}),
        ("llama3", {"original_length": 65}),
    ],
    ids=str,
)
def test_every_field_is_seen_by_the_comparison_of_frequencies(scaling, other):
    config = config_of(scaling)
    assert (
        difference(Rope(SIZE, dataclasses.replace(config, **other)).frequencies, frequencies_of_llama(config, SIZE))
        > 1e-5
    )


def test_llama3_scaling_keeps_fast_pairs_slows_slow_ones_in_full_and_mixes_between():
    plain, scaled = (Rope(SIZE, config_of(scaling)).frequencies for scaling in ("none", "llama3"))
    turns = TRAINED * plain / (2 * math.pi)
    assert torch.equal(scaled[turns > 4], plain[turns > 4])  # the same operations on the same numbers
    assert torch.equal(scaled[turns < 1], plain[turns < 1] / 8)  # a power of two rounds nothing
    between = (turns >= 1) & (turns <= 4)
    assert [len(turns[turns > 4]), between.sum(), len(turns[turns < 1])] == [2, 1, 5]
    assert ((scaled[between] < plain[between]) & (scaled[between] > plain[between] / 8)).all()


def test_ntk_scaling_keeps_the_fastest_pair_and_slows_the_slowest_by_the_factor():
    plain, scaled = (Rope(SIZE, config_of(scaling)).frequencies.double() for scaling in ("none", "ntk"))
    assert scaled[0] == plain[0] == 1
    assert scaled[-1].item() == pytest.approx(plain[-1].item() / 4, rel=1e-6)


@agrees_in_both_precisions
@every_scaling
def test_the_half_layout_equals_the_published_llama(scaling, dtype):
    heads, positions = sample(dtype)
    config = config_of(scaling)
    ours = rotated(config, heads, positions)
    assert ours.dtype == dtype
    yield ours, rotated_by_llama(config, heads, positions)


def test_cosines_and_sines_in_float32_are_those_that_llama_computes():
    _, positions = sample(torch.float32)
    config = config_of("none")
    rotation = Rope(SIZE, config)(positions)
    for ours, theirs in zip(
        (rotation.cos, rotation.sin), llama_of(config, SIZE)(torch.zeros(1), positions), strict=True
    ):
        assert torch.equal(ours[:, 0], theirs[..., : SIZE // 2])  # the same operations on the same numbers


@agrees_in_both_precisions
@every_scaling
def test_the_interleaved_layout_equals_the_published_gptj(scaling, dtype):
    heads, positions = sample(dtype)
    config = config_of(scaling, layout="interleaved")
    wanted = rotated_by_gptj(config, heads, positions)
    yield rotated(config, heads, positions), wanted


def test_the_interleaved_layout_equals_a_product_of_complex_numbers():
    heads, positions = sample(torch.float64)
    config = config_of("none", layout="interleaved")
    frequencies = 500.0 ** -(torch.arange(0, SIZE, 2).double() / SIZE)
    wanted = rotated_by_complex_numbers(frequencies.float(), heads, positions)
    assert difference(rotated(config, heads, positions), wanted) < 1e-4  # of the position 257 times a float32 rounding
    exact = rotated_by_complex_numbers(Rope(SIZE, config).frequencies, heads, positions)
    assert difference(rotated(config, heads, positions), exact) <= 1e-12


@pytest.mark.planted
@pytest.mark.parametrize(
    ("layout", "by"), [("interleaved", rotated_by_llama), ("half", rotated_by_gptj)], ids=["llama", "gptj"]
)
def test_the_other_layout_is_seen_by_the_comparisons(layout, by):
    heads, positions = sample(torch.float64)
    config = config_of("none", layout=layout)
    assert difference(rotated(config, heads, positions), by(config, heads, positions)) > 0.1


@pytest.mark.planted
@pytest.mark.parametrize(
    ("layout", "by"), [("half", rotated_by_llama), ("interleaved", rotated_by_gptj)], ids=["llama", "gptj"]
)
def test_a_turn_the_other_way_and_a_position_off_by_one_are_seen_by_the_comparisons(layout, by):
    heads, positions = sample(torch.float64)
    config = config_of("none", layout=layout)
    wanted = by(config, heads, positions)
    assert difference(rotated(config, heads, -positions), wanted) > 0.1
    assert difference(rotated(config, heads, positions + torch.tensor([[0], [1]])), wanted) > 0.1


@given(
    layout=st.sampled_from(["half", "interleaved"]),
    scaling=st.sampled_from(list(SCALINGS)),
    seed=st.integers(0, 2**32),
    places=st.tuples(*[st.integers(0, 1000)] * 3),
)
def test_the_product_of_a_rotated_query_and_a_rotated_key_depends_on_their_distance_alone(
    layout, scaling, seed, places
):
    m, n, shift = places
    pair = torch.randn(1, 1, 2, SIZE, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    products = []
    for moved in (0, shift):
        turned = rotated(config_of(scaling, layout=layout), pair, torch.tensor([[m + moved, n + moved]]))
        assert difference(turned.norm(dim=-1), pair.norm(dim=-1)) < 1e-12
        products.append(turned.prod(dim=2).sum())
    assert abs(products[0] - products[1]) < 1e-10


@every_layout
def test_the_product_does_depend_on_the_distance(layout):
    pair = torch.ones(1, 1, 2, SIZE, dtype=torch.float64)
    near, far = (rotated(config_of("none", layout=layout), pair, torch.tensor([[0, n]])) for n in (1, 2))
    assert abs(near.prod(dim=2).sum() - far.prod(dim=2).sum()) > 0.1


@every_layout
def test_position_zero_turns_nothing(layout):
    heads, positions = sample(torch.float32)
    # Zero times anything is exactly zero.
    assert torch.equal(rotated(config_of("none", layout=layout), heads, torch.zeros_like(positions)), heads)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_model_in_half_precision_computes_its_angles_in_float32(dtype):
    positions = torch.tensor([[4096]])
    rope = Rope(SIZE, config_of("none"))
    exact = rope(positions)
    halved = rope.to(dtype)
    assert torch.equal(halved(positions).cos, exact.cos)  # the same operations on the same numbers
    assert halved(positions).apply(torch.ones(1, 1, 1, SIZE, dtype=dtype)).dtype == dtype
    coarse = (4096 * exact_frequencies_in(dtype)).cos()
    assert difference(coarse, exact.cos[0, 0, 0]) > 0.1  # what rounding the frequencies would do


def exact_frequencies_in(dtype):
    return Rope(SIZE, config_of("none")).frequencies.to(dtype).float()


def test_frequencies_are_not_stored_in_checkpoints():
    assert Rope(SIZE, config_of("none")).state_dict() == {}


@every_scaling
def test_a_configuration_survives_json(scaling):
    config = config_of(scaling)
    assert config_from_json(RopeConfig, json.loads(json.dumps(config_to_json(config)))) == config


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"theta": 0.0}, "theta to be a positive number"),
        ({"theta": float("nan")}, "theta to be a positive number"),
        ({"theta": True}, "theta to be a positive number"),
        ({"layout": "third"}, "a layout of"),
        ({"scaling": "other"}, "a scaling of"),
        ({"scaling": "linear", "factor": 0.0}, "factor to be a positive number"),
        ({"scaling": "linear", "factor": "2"}, "factor to be a positive number"),
        ({"scaling": "linear", "factor": float("inf")}, "factor to be a positive number"),
        ({"factor": 2.0}, "a factor of 1 without scaling"),
        ({"original_length": 8}, "frequency factors and original_length under llama3 and yarn scaling only"),
        ({"scaling": "ntk", "low_frequency_factor": 1.0}, "frequency factors and original_length under llama3"),
        ({"scaling": "linear", "high_frequency_factor": 4.0}, "frequency factors and original_length under llama3"),
        ({"scaling": "llama3"}, "0 < low_frequency_factor < high_frequency_factor"),
        ({"scaling": "llama3", **BOUNDS, "low_frequency_factor": 4.0}, "0 < low_frequency_factor < high"),
        ({"scaling": "llama3", **BOUNDS, "high_frequency_factor": None}, "0 < low_frequency_factor < high"),
        ({"scaling": "llama3", **BOUNDS, "original_length": 0}, "original_length to be a positive integer"),
        ({"scaling": "yarn", **BOUNDS, "low_frequency_factor": 0.0}, "0 < low_frequency_factor"),
        ({"scaling": "longrope", "factors": (1.0,), "long_factors": (2.0,)}, "original_length to be a positive"),
        ({"scaling": "longrope", "factors": (1.0,), "original_length": 8}, "frequency factors and original_length"),
        ({"scaling": "longrope", "factors": (1.0,), "long_factors": (0.0,), "original_length": 8}, "positive factors"),
        ({"long_factors": (2.0,)}, "long_factors under longrope only"),
        ({"rotated_pairs": 2}, "rotated_pairs under proportional only"),
        ({"scaling": "proportional", "rotated_pairs": -1}, "rotated_pairs of at least 0"),
    ],
    ids=str,
)
def test_fields_that_no_rotation_has_are_refused(fields, expected):
    with pytest.raises(ConfigError) as caught:
        RopeConfig(**fields)
    assert caught.value.expected.startswith(expected)


@pytest.mark.parametrize("size", [0, 7, -2])
def test_a_head_that_does_not_split_into_pairs_is_refused(size):
    with pytest.raises(ConfigError, match=f"an even head size; found {size}; change the head size"):
        Rope(size, RopeConfig())


def test_a_single_pair_cannot_be_slowed_by_ntk_scaling():
    with pytest.raises(ConfigError, match="a head size above 2 under ntk scaling; found 2"):
        Rope(2, config_of("ntk"))
