"""Tensors of a request → options; a tensor that is declared and not read would be an option that nothing obeys."""

import numpy as np
import pytest

from attendant.errors import InputError
from attendant.tensor_names import TEXT_OPTIONS
from serving.engine.options import DecodingOptions, Guide
from serving.runtime.base import numpy_dtype
from serving.triton.backends.asking import options_from_tensors, subject_from_tensors

OF_THE_RESPONSE = {"stream", "return_num_input_tokens", "return_num_output_tokens"}
"""What says how an answer is sent, and nothing of how it is decoded; read by serving/triton/backends/stream.py."""
READ = {  # tensor → its contents, what else must be sent, and the options that all of them make
    "max_tokens": ([7], {}, {"max_tokens": 7}),
    "min_tokens": ([3], {}, {"min_tokens": 3}),
    "top_k": ([5], {}, {"top_k": 5}),
    "beam_width": ([4], {}, {"beam_width": 4}),
    "early_stopping": ([2], {}, {"early_stopping": "never"}),
    "num_return_sequences": ([2], {"temperature": [0.5]}, {"candidates": 2, "temperature": 0.5}),
    "temperature": ([0.5], {}, {"temperature": 0.5}),
    "top_p": ([0.25], {}, {"top_p": 0.25}),
    "min_p": ([0.125], {}, {"min_p": 0.125}),
    "typical_p": ([0.75], {}, {"typical_p": 0.75}),
    "repetition_penalty": ([1.5], {}, {"repetition_penalty": 1.5}),
    "presence_penalty": ([-2.0], {}, {"presence_penalty": -2.0}),
    "frequency_penalty": ([2.5], {}, {"frequency_penalty": 2.5}),
    "length_penalty": ([0.5], {}, {"length_penalty": 0.5}),
    "seed": ([2**64 - 1], {}, {"seed": 2**64 - 1}),
    "stop_words": ([b"\n\n", "é".encode()], {}, {"stop": ("\n\n", "é")}),
    "stop_ids": ([4, 9], {}, {"stop_ids": (4, 9)}),
    "logit_bias_ids": ([4, 9], {"logit_bias": [1.5, -100.0]}, {"logit_bias": {4: 1.5, 9: -100.0}}),
    "logit_bias": ([1.5], {"logit_bias_ids": [4]}, {"logit_bias": {4: 1.5}}),
    "ignore_end": ([True], {}, {"ignore_end": True}),
    "exclude_input_in_output": ([False], {}, {"echo": True}),
    "return_log_probs": ([True], {}, {"logprobs": True}),
    "top_log_probs_count": ([3], {"return_log_probs": [True]}, {"top_logprobs": 3, "logprobs": True}),
    "draft_tokens": ([8], {}, {"draft_tokens": 8}),
    "priority": ([0], {}, {"priority": 0}),
    "deadline_ms": ([1500], {}, {"deadline_ms": 1500}),
    "guided_decoding_guide_type": ([b"json"], {}, {"guide": Guide(kind="json")}),
    "guided_decoding_guide": (
        [b"[0-9]+"],
        {"guided_decoding_guide_type": [b"regex"]},
        {"guide": Guide(kind="regex", text="[0-9]+")},
    ),
}
TYPES = {spec.name: numpy_dtype(spec.dtype) for spec in TEXT_OPTIONS}


def tensors_of(**contents):
    """Tensors as Triton hands them over: with a batch of one in front."""
    return {name: np.array([value], dtype=TYPES[name]) for name, value in contents.items()}


def test_every_tensor_that_a_text_model_declares_is_read_here_or_says_how_to_send():
    assert READ.keys() | OF_THE_RESPONSE == TYPES.keys()
    assert not READ.keys() & OF_THE_RESPONSE


@pytest.mark.parametrize("name", READ)
def test_a_tensor_is_the_option_of_its_meaning_and_no_other(name):
    contents, also, expected = READ[name]
    assert options_from_tensors(tensors_of(**{name: contents}, **also), False) == DecodingOptions(**expected)
    assert DecodingOptions(**expected) != DecodingOptions()


def test_a_request_without_options_is_decoded_by_default_and_explained_if_it_says_so():
    assert options_from_tensors({}, False) == DecodingOptions()
    assert options_from_tensors({}, True) == DecodingOptions(explain=True)


@pytest.mark.parametrize("flag", ["ignore_end", "return_log_probs"])
def test_a_flag_that_is_false_asks_for_nothing(flag):
    assert options_from_tensors(tensors_of(**{flag: [False]}), False) == DecodingOptions()


@pytest.mark.parametrize("number", [0, 1, 2])
def test_early_stopping_is_false_true_or_never(number):
    found = options_from_tensors(tensors_of(early_stopping=[number]), False).early_stopping
    assert found is (False, True, "never")[number]


@pytest.mark.parametrize("name", sorted(spec.name for spec in TEXT_OPTIONS if spec.axes == (1,)))
@pytest.mark.parametrize("count", [0, 2])
def test_another_number_of_elements_than_one_is_refused_by_name(name, count):
    with pytest.raises(InputError, match=f"one element in '{name}'; found {count}"):
        options_from_tensors({name: np.zeros((1, count), dtype=TYPES[name])}, False)


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        ({"early_stopping": [3]}, r"early_stopping, one of \[0, 1, 2\]; found 3"),
        ({"guided_decoding_guide_type": [b"yaml"]}, r"guided_decoding_guide_type, one of .*'regex'\]; found 'yaml'"),
        ({"guided_decoding_guide": [b"[0-9]+"]}, "a guided_decoding_guide_type beside the guide; found none"),
        ({"logit_bias": [1.0]}, "as many logit_bias as logit_bias_ids; found 1 and 0"),
        ({"logit_bias_ids": [4, 9], "logit_bias": [1.0]}, "as many logit_bias as logit_bias_ids; found 1 and 2"),
        ({"temperature": [-1.0]}, "temperature from 0 to 100; found -1.0"),
    ],
)
def test_what_no_option_can_be_is_refused(contents, message):
    with pytest.raises(InputError, match=message):
        options_from_tensors(tensors_of(**contents), False)


def question(**contents):
    types = {"text_input": object, "input_ids": np.int32}
    return {name: np.array([value], dtype=types[name]) for name, value in contents.items()}


def test_a_text_model_is_asked_a_text_or_the_tokens_of_one():
    assert subject_from_tensors(question(text_input=["naïve 🙂".encode()])) == "naïve 🙂"
    assert subject_from_tensors(question(input_ids=[3, 1, 2])) == [3, 1, 2]


def test_bytes_that_are_no_text_are_replaced_and_not_a_failure():
    assert subject_from_tensors(question(text_input=[b"a\xff"])) == "a�"


@pytest.mark.parametrize(("contents", "found"), [({}, "neither"), ({"text_input": [b"x"], "input_ids": [3]}, "both")])
def test_neither_or_both_are_refused(contents, found):
    with pytest.raises(InputError, match=f"'text_input' or 'input_ids'; found {found}"):
        subject_from_tensors(question(**contents))
