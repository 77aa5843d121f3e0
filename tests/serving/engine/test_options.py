"""Every option's range, and what excludes what; each refusal names the option and what was found."""

from dataclasses import fields

import pytest

from attendant.errors import InputError
from serving.engine.options import DecodingOptions, Guide

JSON = Guide(kind="json")
RANGES = [  # name, least, most, below, above, what else must be asked for
    ("min_tokens", 0, 1_000_000_000, -1, 1_000_000_001, {}),
    ("temperature", 0, 100, -0.1, 100.1, {}),
    ("top_k", 0, 1_000_000_000, -1, 1_000_000_001, {}),
    ("top_p", 0.001, 1, 0, 1.001, {}),
    ("min_p", 0, 1, -0.001, 1.001, {}),
    ("typical_p", 0.001, 1, 0, 1.001, {}),
    ("repetition_penalty", 0.001, 100, 0, 101, {}),
    ("presence_penalty", -100, 100, -101, 101, {}),
    ("frequency_penalty", -100, 100, -101, 101, {}),
    ("seed", 0, 2**64 - 1, -1, 2**65, {}),
    ("candidates", 1, 32, 0, 33, {"temperature": 1.0}),
    ("beam_width", 1, 32, 0, 33, {}),
    ("length_penalty", -30, 30, -31, 31, {}),
    ("top_logprobs", 0, 20, -1, 21, {"logprobs": True}),
    ("draft_tokens", 0, 32, -1, 33, {}),
    ("priority", 0, 1, -1, 2, {}),
    ("deadline_ms", 1, 1_000_000_000, 0, 1_000_000_001, {}),
]


@pytest.mark.parametrize(("name", "least", "most", "below", "above", "also"), RANGES)
def test_the_ends_of_a_range_are_taken_and_what_lies_beyond_is_refused_by_name(name, least, most, below, above, also):
    for value in (least, most):
        assert getattr(DecodingOptions(**{name: value}, **also), name) == value
    for value in (below, above, float("nan")):
        with pytest.raises(InputError, match=f"^expected {name} (from|above) .*; found {value}; correct {name}$"):
            DecodingOptions(**{name: value}, **also)


def test_every_option_that_is_a_number_has_a_range():
    numbers = {spec.name for spec in fields(DecodingOptions) if "int" in str(spec.type) or "float" in str(spec.type)}
    of_a_model = {"max_tokens", "stop_ids", "logit_bias"}  # a model knows its capacity and its vocabulary
    assert {name for name, *_ in RANGES} == numbers - of_a_model


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"beam_width": 2, "candidates": 3}, "at most 2 candidates of so many beams"),
        ({"candidates": 2}, "one candidate of greedy decoding"),
        ({"beam_width": 2, "temperature": 0.5}, "beams without a temperature"),
        ({"beam_width": 2, "stop": ("x",)}, "beams without stop texts"),
        ({"beam_width": 2, "guide": JSON}, "beams without a guide"),
        ({"beam_width": 2, "draft_tokens": 1}, "beams without draft tokens"),
        ({"beam_width": 2, "explain": True}, "one beam to be explained"),
        ({"beam_width": 2, "logprobs": True}, "beams without log-probabilities"),
        ({"draft_tokens": 1, "explain": True}, "no draft tokens in an answer that is explained"),
        ({"guide": JSON, "ignore_end": True}, "a guide without ignore_end"),
        ({"top_logprobs": 1}, "top_logprobs together with logprobs"),
    ],
)
def test_what_excludes_each_other_is_refused_with_all_that_was_asked_and_each_alone_is_taken(asked, expected):
    with pytest.raises(InputError, match=expected) as refused:
        DecodingOptions(**asked)
    assert all(f"{name} = {value!r}" in str(refused.value) for name, value in asked.items())
    assert str(refused.value).count(" = ") == len(asked)
    for name in asked.keys() - {"candidates", "top_logprobs"}:
        DecodingOptions(**{name: asked[name]})


def test_what_needs_another_option_is_taken_with_it():
    DecodingOptions(beam_width=3, candidates=3, early_stopping="never")
    DecodingOptions(candidates=2, temperature=0.1, logprobs=True, top_logprobs=20, stop=("x",), guide=JSON)


def test_a_stop_text_of_no_character_is_refused():
    with pytest.raises(InputError, match="stop texts of at least one character; found an empty one"):
        DecodingOptions(stop=("x", ""))


@pytest.mark.parametrize(
    ("asked", "rows", "is_greedy"),
    [
        ({}, 1, True),
        ({"temperature": 0.5}, 1, False),
        ({"temperature": 0.5, "candidates": 3}, 3, False),
        ({"beam_width": 4}, 4, False),
        ({"beam_width": 4, "candidates": 2}, 4, False),
    ],
)
def test_a_request_takes_a_row_for_each_sample_or_beam(asked, rows, is_greedy):
    options = DecodingOptions(**asked)
    assert (options.rows, options.is_greedy) == (rows, is_greedy)
