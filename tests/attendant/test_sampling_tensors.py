"""Sampling parameters ↔ tensors: what is sent is read; a tensor that is declared and not read would obey nothing."""

from dataclasses import MISSING, fields

import numpy as np
import pytest

from attendant.errors import InputError
from attendant.sampling_params import SamplingParams, Structure
from attendant.sampling_tensors import SPECS, params_from_tensors, prompt_from_tensors, prompt_tensors, tensors_of
from serving.runtime.base import numpy_dtype

SAID = {
    "max_tokens": 7,
    "min_tokens": 2,
    "temperature": 0.5,
    "top_k": 3,
    "top_p": 0.75,
    "min_p": 0.25,
    "typical_p": 0.5,
    "seed": 2**64 - 1,
    "n": 2,
    "repetition_penalty": 1.5,
    "presence_penalty": -0.5,
    "frequency_penalty": 0.5,
    "logit_bias": {3: -100.0, 5: 2.5},
    "length_penalty": 0.5,
    "early_stopping": "never",
    "stop": ("END", "ü"),
    "stop_token_ids": (4, 9),
    "ignore_eos": True,
    "parse_special": True,
    "echo": True,
    "logprobs": True,
    "top_logprobs": 3,
    "num_speculative_tokens": 4,
    "priority": 0,
    "deadline_ms": 900,
}
FORMS = {"json_object": True, "json_schema": '{"type": "object"}', "regex": "a+", "grammar": "start: /a/"}
SAID_ELSEWHERE = {"beam_width", "token_counts", "explain"}


def every_tensor():
    said = {name: value for name, value in SAID.items() if name != "ignore_eos"}
    structured = SamplingParams(**said, token_counts=True, regex="a+")
    return tensors_of(structured) | tensors_of(SamplingParams(beam_width=2, ignore_eos=True))


def as_the_server_reads_them(**options):
    return params_from_tensors(tensors_of(SamplingParams(**options)), explain=False)


def test_nothing_but_the_wish_for_a_stream_is_sent_of_what_is_not_said():
    assert {name: array.tolist() for name, array in tensors_of(SamplingParams()).items()} == {"stream": [[True]]}


def test_the_server_reads_what_was_said():
    assert as_the_server_reads_them(**SAID) == SamplingParams(**SAID)
    assert as_the_server_reads_them(beam_width=3, early_stopping="yes") == SamplingParams(
        beam_width=3, early_stopping="yes"
    )


@pytest.mark.parametrize(
    ("form", "kind"), [("json_object", "json"), *((name, name) for name in ("json_schema", "regex", "grammar"))]
)
def test_the_server_reads_the_form_that_was_asked_for(form, kind):
    text = FORMS[form] if kind != "json" else ""
    assert as_the_server_reads_them(**{form: FORMS[form]}).structure == Structure(kind=kind, text=text)


def test_every_option_is_said_in_these_tests_and_none_is_its_default():
    assert SAID.keys() | FORMS.keys() | SAID_ELSEWHERE == {option.name for option in fields(SamplingParams)}
    defaults = {option.name: option.default for option in fields(SamplingParams) if option.default is not MISSING}
    assert [name for name, value in (SAID | FORMS).items() if value == defaults.get(name)] == []


def test_every_tensor_that_a_writing_model_takes_can_be_sent():
    assert every_tensor().keys() == SPECS.keys()


def test_every_tensor_has_its_type_and_a_batch_of_one_in_front():
    for name, array in every_tensor().items():
        spec = SPECS[name]
        assert array.dtype == (np.dtype(object) if spec.dtype == "string" else np.dtype(spec.dtype)), name
        assert array.ndim == 2 and array.shape[0] == 1, name
        assert array.shape[1] == spec.axes[0] or isinstance(spec.axes[0], str), name


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"stop_token_ids": (1, 2**40)}, "stop_token_ids"),
        ({"logit_bias": {2**40: 1.0}}, "logit_bias_ids"),
    ],
)
def test_a_number_that_its_tensor_cannot_hold_is_refused_by_name(options, says):
    with pytest.raises(InputError, match=says):
        tensors_of(SamplingParams(**options))


@pytest.mark.parametrize("question", ["ein Stück Text", [1, 2, 3], (4,), np.array([5, 6])])
def test_the_server_reads_the_question_a_text_or_its_tokens(question):
    wanted = question if isinstance(question, str) else list(question)
    assert prompt_from_tensors(prompt_tensors(question)) == wanted
    if not isinstance(question, str):
        assert prompt_from_tensors(prompt_tensors(iter(question))) == wanted


@pytest.mark.parametrize(
    ("question", "found"),
    [
        ([1.5], "type float"),
        ([1, None], "type NoneType"),
        (5, "type int"),
        (None, "type NoneType"),
        (["a"], "type str"),
        ([[1]], "type list"),
        (b"ab", "type bytes"),
        (bytearray(b"ab"), "type bytearray"),
        ({1: "a"}, "type dict"),
        ({1, 2}, "type set"),
        ([True, False], "type bool"),
        (np.ones(2), "type float64"),
        ("a\ud800", r"'\\ud800' at 1"),
    ],
)
def test_what_is_no_text_and_no_tokens_is_refused(question, found):
    with pytest.raises(InputError, match=found):
        prompt_tensors(question)


READ = {  # tensor → its contents, what else must be sent, and the options that all of them make
    "max_tokens": ([7], {}, {"max_tokens": 7}),
    "min_tokens": ([3], {}, {"min_tokens": 3}),
    "top_k": ([5], {}, {"top_k": 5}),
    "beam_width": ([4], {}, {"beam_width": 4}),
    "early_stopping": ([2], {}, {"early_stopping": "never"}),
    "num_return_sequences": ([2], {"temperature": [0.5]}, {"n": 2, "temperature": 0.5}),
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
    "stop_token_ids": ([4, 9], {}, {"stop_token_ids": (4, 9)}),
    "logit_bias_ids": ([4, 9], {"logit_bias": [1.5, -100.0]}, {"logit_bias": {4: 1.5, 9: -100.0}}),
    "logit_bias": ([1.5], {"logit_bias_ids": [4]}, {"logit_bias": {4: 1.5}}),
    "ignore_eos": ([True], {}, {"ignore_eos": True}),
    "parse_special": ([True], {}, {"parse_special": True}),
    "exclude_input_in_output": ([False], {}, {"echo": True}),
    "return_log_probs": ([True], {}, {"logprobs": True}),
    "top_logprobs": ([3], {"return_log_probs": [True]}, {"top_logprobs": 3, "logprobs": True}),
    "num_speculative_tokens": ([8], {}, {"num_speculative_tokens": 8}),
    "priority": ([0], {}, {"priority": 0}),
    "deadline_ms": ([1500], {}, {"deadline_ms": 1500}),
    "return_num_input_tokens": ([True], {}, {"token_counts": True}),
    "return_num_output_tokens": ([True], {}, {"token_counts": True}),
    "guided_decoding_guide_type": ([b"json"], {}, {"json_object": True}),
    "guided_decoding_guide": (
        [b"[0-9]+"],
        {"guided_decoding_guide_type": [b"regex"]},
        {"regex": "[0-9]+"},
    ),
}
TYPES = {name: numpy_dtype(spec.dtype) for name, spec in SPECS.items()}


def sent(**contents):
    """Tensors as Triton hands them over: with a batch of one in front."""
    return {name: np.array([value], dtype=TYPES[name]) for name, value in contents.items()}


def test_every_tensor_that_a_text_model_declares_is_read_here_or_says_how_to_send():
    assert READ.keys() | {"stream"} == TYPES.keys()


@pytest.mark.parametrize("name", READ)
def test_a_tensor_is_the_option_of_its_meaning_and_no_other(name):
    contents, also, expected = READ[name]
    assert params_from_tensors(sent(**{name: contents}, **also), False) == SamplingParams(**expected)
    assert SamplingParams(**expected) != SamplingParams()


def test_a_request_without_options_is_decoded_by_default_and_explained_if_it_says_so():
    assert params_from_tensors({}, False) == SamplingParams()
    assert params_from_tensors({}, True) == SamplingParams(explain=True)


@pytest.mark.parametrize("flag", ["ignore_eos", "return_log_probs"])
def test_a_flag_that_is_false_asks_for_nothing(flag):
    assert params_from_tensors(sent(**{flag: [False]}), False) == SamplingParams()


@pytest.mark.parametrize("number", [0, 1, 2])
def test_early_stopping_is_no_yes_or_never(number):
    found = params_from_tensors(sent(early_stopping=[number]), False).early_stopping
    assert found == ("no", "yes", "never")[number]


@pytest.mark.parametrize("name", sorted(name for name, spec in SPECS.items() if spec.axes == (1,)))
@pytest.mark.parametrize("count", [0, 2])
def test_another_number_of_elements_than_one_is_refused_by_name(name, count):
    with pytest.raises(InputError, match=f"one element in '{name}'; found {count}"):
        params_from_tensors({name: np.zeros((1, count), dtype=TYPES[name])}, False)


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        ({"early_stopping": [3]}, r"early_stopping, one of \[0, 1, 2\]; found 3"),
        ({"guided_decoding_guide_type": [b"yaml"]}, r"guided_decoding_guide_type, one of .*'grammar'\]; found 'yaml'"),
        ({"guided_decoding_guide": [b"[0-9]+"]}, "a guided_decoding_guide_type beside the guide; found none"),
        ({"logit_bias": [1.0]}, "as many logit_bias as logit_bias_ids; found 1 and 0"),
        ({"logit_bias_ids": [4, 9], "logit_bias": [1.0]}, "as many logit_bias as logit_bias_ids; found 1 and 2"),
        ({"temperature": [-1.0]}, "temperature from 0 to 100; found -1.0"),
    ],
)
def test_what_no_option_can_be_is_refused(contents, message):
    with pytest.raises(InputError, match=message):
        params_from_tensors(sent(**contents), False)


def question(**contents):
    types = {"text_input": object, "input_ids": np.int32}
    return {name: np.array([value], dtype=types[name]) for name, value in contents.items()}


def test_a_text_model_is_asked_a_text_or_the_tokens_of_one():
    assert prompt_from_tensors(question(text_input=["naïve 🙂".encode()])) == "naïve 🙂"
    assert prompt_from_tensors(question(input_ids=[3, 1, 2])) == [3, 1, 2]


def test_bytes_that_are_no_text_are_replaced_and_not_a_failure():
    assert prompt_from_tensors(question(text_input=[b"a\xff"])) == "a�"


@pytest.mark.parametrize(("contents", "found"), [({}, "neither"), ({"text_input": [b"x"], "input_ids": [3]}, "both")])
def test_neither_or_both_are_refused(contents, found):
    with pytest.raises(InputError, match=f"'text_input' or 'input_ids'; found {found}"):
        prompt_from_tensors(question(**contents))


class _Untouched(bytes):
    """Fails where it is decoded."""

    def decode(self, *_args, **_keywords):
        raise AssertionError("it was decoded")


@pytest.mark.planted
@pytest.mark.parametrize(
    ("name", "tensors"),
    [
        ("stop", {"stop_words": np.array([[_Untouched(b"x")] * 17], dtype=object)}),
        ("stop", {"stop_words": np.array([[_Untouched(b"x" * 5000)]], dtype=object)}),
        ("stop_token_ids", {"stop_token_ids": np.zeros((1, 10**6), np.int32)}),
        ("logit_bias", {"logit_bias_ids": np.zeros((1, 10**6), np.int32), "logit_bias": np.zeros((1, 10**6))}),
        (
            "regex",
            {
                "guided_decoding_guide_type": np.array([[b"regex"]], dtype=object),
                "guided_decoding_guide": np.array([[_Untouched(b"x" * 10**6)]], dtype=object),
            },
        ),
        ("max_tokens", {"max_tokens": np.zeros((1, 10**6), np.int32)}),
    ],
)
def test_a_tensor_of_too_much_is_refused_before_a_value_of_it_is_read(name, tensors):
    with pytest.raises(InputError) as caught:
        params_from_tensors(tensors)
    assert caught.value.param in {name, "json_schema"}  # which share a tensor


def test_a_prompt_of_more_than_the_model_takes_is_refused_before_it_is_read():
    with pytest.raises(InputError, match="at most 10 tokens, which are at most 100 characters; found 401 bytes"):
        prompt_from_tensors(question(text_input=[_Untouched(b"x" * 401)]), 10, 100)
    with pytest.raises(InputError, match="1 to 10 tokens; found 11"):
        prompt_from_tensors(question(input_ids=[1] * 11), 10, 100)
    assert prompt_from_tensors(question(input_ids=[1] * 10), 10, 100) == [1] * 10
