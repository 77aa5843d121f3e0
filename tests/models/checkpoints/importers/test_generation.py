import pytest

from attendant.errors import ConfigError
from models.checkpoints.importers.generation import end_tokens, generation_details


@pytest.mark.parametrize(
    ("value", "tokens"), [(2, [2]), ([128001, 128009], [128001, 128009]), (None, []), (0, [0])], ids=str
)
def test_every_end_token_is_kept(value, tokens):
    assert end_tokens({"eos_token_id": value}) == tokens
    assert end_tokens({}) == []


@pytest.mark.parametrize("value", ["2", [2.0], [-1], True, {"a": 1}, 2**31, [2**70]], ids=repr)
def test_an_end_that_is_no_token_is_refused(value):
    with pytest.raises(ConfigError, match="eos_token_id"):
        end_tokens({"eos_token_id": value})


def test_what_changes_nothing_leaves_no_detail():
    neutral = {"num_beams": 1, "repetition_penalty": 1.0, "min_length": 0, "bad_words_ids": None, "temperature": None}
    assert generation_details({**neutral, "max_length": 20, "use_cache": True, "length_penalty": 2.0}) == {}


def test_the_first_token_of_an_answer_may_be_forced():
    assert generation_details({"forced_bos_token_id": 0}) == {"forced_start_token": 0}
    assert generation_details({"force_bos_token_to_be_generated": True, "bos_token_id": 5}) == {"forced_start_token": 5}
    assert generation_details({"force_bos_token_to_be_generated": False, "bos_token_id": 5}) == {}


def test_single_tokens_that_are_never_said_are_followed_and_phrases_are_not():
    details = generation_details({"bad_words_ids": [[60], [1, 2], [0]], "suppress_tokens": [7, 60], "eos_token_id": 0})
    assert details == {"suppressed_tokens": [7, 60], "generation_not_followed": {"bad_words_ids": [[1, 2]]}}


def test_what_would_change_greedy_answers_is_kept_and_said_to_be_left_out():
    asked = {
        "num_beams": 4,
        "no_repeat_ngram_size": 3,
        "repetition_penalty": 1.2,
        "min_length": 10,
        "forced_eos_token_id": 0,
    }
    assert generation_details(asked) == {"generation_not_followed": asked}


def test_the_settings_of_sampling_are_kept():
    asked = {"do_sample": True, "temperature": 0.6, "top_p": 0.9, "top_k": 20}
    assert generation_details(asked) == {"sampling_defaults": asked}


@pytest.mark.parametrize(
    "values",
    [
        {"bad_words_ids": [5]},
        {"bad_words_ids": [["a", 1]]},
        {"suppress_tokens": 5},
        {"bad_words_ids": "x"},
        {"suppress_tokens": ["a"]},
        {"suppress_tokens": -1},
        {"forced_bos_token_id": "</s>"},
    ],
    ids=str,
)
def test_what_would_have_to_be_followed_and_makes_no_sense_is_refused(values):
    with pytest.raises(ConfigError):
        generation_details(values)
