"""Every parameter's range, and what excludes what; each refusal names the parameter and what was found."""

import json

import pytest

from attendant.errors import InputError
from attendant.sampling_params import PARAMS, TYPES, SamplingParams, Structure

RANGES = [  # name, least, most, below, above, what else must be asked for
    ("max_tokens", 0, 1_000_000_000, -1, 1_000_000_001, {}),
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
    ("n", 1, 32, 0, 33, {"temperature": 1.0}),
    ("beam_width", 1, 32, 0, 33, {}),
    ("length_penalty", -30, 30, -31, 31, {}),
    ("top_logprobs", 0, 20, -1, 21, {"logprobs": True}),
    ("num_speculative_tokens", 0, 32, -1, 33, {}),
    ("priority", 0, 1, -1, 2, {}),
    ("deadline_ms", 1, 1_000_000_000, 0, 1_000_000_001, {}),
]


@pytest.mark.parametrize(("name", "least", "most", "below", "above", "also"), RANGES)
def test_the_ends_of_a_range_are_taken_and_what_lies_beyond_is_refused_by_name(name, least, most, below, above, also):
    for value in (least, most):
        assert getattr(SamplingParams(**{name: value}, **also), name) == value
    for value in (below, float("nan")):
        with pytest.raises(
            InputError, match=f"^expected {name} (from|above|of at least) .*; found {value}; correct {name}$"
        ):
            SamplingParams(**{name: value}, **also)
    with pytest.raises(
        InputError, match=f"^expected {name} from .*{most:g}; found {above}; correct {name}$".replace("+", r"\+")
    ):
        SamplingParams(**{name: above}, **also)


def test_every_option_that_is_a_number_has_a_range():
    numbers = {name for name in PARAMS if "int" in str(TYPES[name]) or "float" in str(TYPES[name])}
    of_a_model = {"stop_token_ids", "logit_bias"}  # a model knows its vocabulary
    assert {name for name, *_ in RANGES} == numbers - of_a_model


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"beam_width": 2, "n": 3}, "n of at most 2, of so many beams"),
        ({"n": 2}, "n of 1 in greedy decoding"),
        ({"beam_width": 2, "temperature": 0.5}, "beams without a temperature"),
        ({"beam_width": 2, "stop": ("x",)}, "beams without stop texts"),
        ({"beam_width": 2, "json_object": True}, "beams without structured output"),
        ({"beam_width": 2, "num_speculative_tokens": 1}, "beams without speculative tokens"),
        ({"beam_width": 2, "explain": True}, "one beam to be explained"),
        ({"beam_width": 2, "logprobs": True}, "beams without log-probabilities"),
        ({"num_speculative_tokens": 1, "explain": True}, "no speculative tokens in an answer that is explained"),
        ({"regex": "a", "ignore_eos": True}, "structured output without ignore_eos"),
        ({"json_object": True, "regex": "a+"}, "one structure of an answer"),
        ({"top_logprobs": 1}, "top_logprobs together with logprobs"),
    ],
)
def test_what_excludes_each_other_is_refused_with_all_that_was_asked_and_each_alone_is_taken(asked, expected):
    with pytest.raises(InputError, match=expected) as refused:
        SamplingParams(**asked)
    assert all(f"{name} = {json.dumps(value)}" in str(refused.value) for name, value in asked.items())
    assert str(refused.value).count(" = ") == len(asked)
    assert refused.value.param in asked or expected == "one structure of an answer"
    for name in asked.keys() - {"n", "top_logprobs"}:
        SamplingParams(**{name: asked[name]})


def test_what_needs_another_option_is_taken_with_it():
    SamplingParams(beam_width=3, n=3, early_stopping="never")
    SamplingParams(n=2, temperature=0.1, logprobs=True, top_logprobs=20, stop=("x",), regex="a")


def test_a_stop_text_of_no_character_is_refused():
    with pytest.raises(InputError, match="stop texts of at least one character; found an empty one"):
        SamplingParams(stop=("x", ""))


@pytest.mark.parametrize(
    ("asked", "sequences", "is_greedy"),
    [
        ({}, 1, True),
        ({"temperature": 0.5}, 1, False),
        ({"temperature": 0.5, "n": 3}, 3, False),
        ({"beam_width": 4}, 4, False),
        ({"beam_width": 4, "n": 2}, 4, False),
    ],
)
def test_a_request_takes_a_sequence_for_each_sample_or_beam(asked, sequences, is_greedy):
    options = SamplingParams(**asked)
    assert (options.sequences, options.is_greedy) == (sequences, is_greedy)


@pytest.mark.parametrize(
    ("asked", "structure"),
    [
        ({}, None),
        ({"json_object": True}, Structure(kind="json")),
        ({"json_schema": "{}"}, Structure(kind="json_schema", text="{}")),
        ({"grammar": "start: /a/"}, Structure(kind="grammar", text="start: /a/")),
        ({"regex": "a+"}, Structure(kind="regex", text="a+")),
    ],
)
def test_what_an_answer_must_look_like_is_one_value(asked, structure):
    assert SamplingParams(**asked).structure == structure


COUNTED = {  # name → a value of the parameter with so many items
    "stop": lambda count: tuple(f"{number:04}" for number in range(count)),
    "stop_token_ids": lambda count: tuple(range(count)),
    "logit_bias": lambda count: dict.fromkeys(range(count), 1.0),
}
LENGTHS = {"stop": lambda text: (text,), "json_schema": str, "regex": str, "grammar": str}


@pytest.mark.parametrize("name", COUNTED)
def test_a_parameter_of_several_values_takes_its_most_and_no_more(name):
    most = PARAMS[name].max_items
    assert len(getattr(SamplingParams(**{name: COUNTED[name](most)}), name)) == most
    with pytest.raises(InputError, match=f"^expected {name} of at most {most} values; found {most + 1}"):
        SamplingParams(**{name: COUNTED[name](most + 1)})


@pytest.mark.parametrize("name", LENGTHS)
def test_a_text_takes_its_longest_length_and_no_more(name):
    most = PARAMS[name].max_length
    SamplingParams(**{name: LENGTHS[name]("a" * most)})
    with pytest.raises(InputError, match=f"^expected {name} of at most {most} characters; found {most + 1}"):
        SamplingParams(**{name: LENGTHS[name]("a" * (most + 1))})


def test_every_parameter_of_several_values_or_of_text_has_a_bound():
    assert {name for name, param in PARAMS.items() if param.several} == set(COUNTED)
    assert {name for name, kind in TYPES.items() if "str" in str(kind) and "Literal" not in str(kind)} == set(LENGTHS)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_bias_that_is_no_number_is_refused(value):
    with pytest.raises(InputError, match="finite numbers in logit_bias"):
        SamplingParams(logit_bias={1: value})
