from dataclasses import MISSING, fields

import numpy as np
import pytest

from attendant.errors import InputError
from attendant.tensor_names import TEXT_OPTIONS
from clients.decoding import Decoding
from clients.decoding_tensors import question_tensors, tensors_of
from serving.engine.options import DecodingOptions, Guide
from serving.triton.backends.asking import options_from_tensors, subject_from_tensors

SPECS = {spec.name: spec for spec in TEXT_OPTIONS}
SAID = {
    "max_tokens": 7,
    "min_tokens": 2,
    "temperature": 0.5,
    "top_k": 3,
    "top_p": 0.75,
    "min_p": 0.25,
    "typical_p": 0.5,
    "seed": 2**64 - 1,
    "candidates": 2,
    "repetition_penalty": 1.5,
    "presence_penalty": -0.5,
    "frequency_penalty": 0.5,
    "logit_bias": {3: -100.0, 5: 2.5},
    "length_penalty": 0.5,
    "early_stopping": "never",
    "stop": ("END", "ü"),
    "stop_ids": (4, 9),
    "ignore_end": True,
    "echo": True,
    "logprobs": True,
    "top_logprobs": 3,
    "draft_tokens": 4,
    "priority": 0,
    "deadline_ms": 900,
}
FORMS = {"any_json": True, "json_schema": '{"type": "object"}', "regex": "a+"}
SAID_ELSEWHERE = {"beam_width", "token_counts", "explain"}


def as_the_server_reads_them(**options):
    return options_from_tensors(tensors_of(Decoding(**options)), explain=False)


def test_nothing_but_the_wish_for_a_stream_is_sent_of_what_is_not_said():
    assert {name: array.tolist() for name, array in tensors_of(Decoding()).items()} == {"stream": [[True]]}


def test_the_server_reads_what_was_said():
    assert as_the_server_reads_them(**SAID) == DecodingOptions(**SAID)
    assert as_the_server_reads_them(beam_width=3, early_stopping="yes") == DecodingOptions(
        beam_width=3, early_stopping=True
    )


@pytest.mark.parametrize(("form", "kind"), [("any_json", "json"), ("json_schema", "json_schema"), ("regex", "regex")])
def test_the_server_reads_the_form_that_was_asked_for(form, kind):
    text = FORMS[form] if kind != "json" else ""
    assert as_the_server_reads_them(**{form: FORMS[form]}).guide == Guide(kind=kind, text=text)


def test_every_option_is_said_in_these_tests_and_none_is_its_default():
    assert SAID.keys() | FORMS.keys() | SAID_ELSEWHERE == {option.name for option in fields(Decoding)}
    defaults = {option.name: option.default for option in fields(Decoding) if option.default is not MISSING}
    assert [name for name, value in (SAID | FORMS).items() if value == defaults.get(name)] == []


def test_every_tensor_that_a_writing_model_takes_can_be_sent():
    every = tensors_of(Decoding(**SAID, beam_width=2, token_counts=True, regex="a+"))
    assert every.keys() == SPECS.keys()


def test_every_tensor_has_its_type_and_a_batch_of_one_in_front():
    for name, array in tensors_of(Decoding(**SAID, beam_width=2, token_counts=True, regex="a+")).items():
        spec = SPECS[name]
        assert array.dtype == (np.dtype(object) if spec.dtype == "string" else np.dtype(spec.dtype)), name
        assert array.ndim == 2 and array.shape[0] == 1, name
        assert array.shape[1] == spec.axes[0] or isinstance(spec.axes[0], str), name


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"seed": -1}, "seed from 0 to 18446744073709551615; found -1"),
        ({"seed": 2**64}, "seed from 0"),
        ({"max_tokens": 2**31}, "max_tokens from -2147483648 to 2147483647"),
        ({"stop_ids": (1, 2**40)}, "stop_ids"),
        ({"logit_bias": {2**40: 1.0}}, "logit_bias_ids"),
    ],
)
def test_a_number_that_its_tensor_cannot_hold_is_refused_by_name(options, says):
    with pytest.raises(InputError, match=says):
        tensors_of(Decoding(**options))


def test_two_forms_of_one_answer_are_refused():
    with pytest.raises(InputError, match="found any_json and regex"):
        Decoding(any_json=True, regex="a+")


@pytest.mark.parametrize("question", ["ein Stück Text", [1, 2, 3], (4,), np.array([5, 6])])
def test_the_server_reads_the_question_a_text_or_its_tokens(question):
    wanted = question if isinstance(question, str) else list(question)
    assert subject_from_tensors(question_tensors(question)) == wanted
