import pytest

from models.errors import InputError
from models.tokenization import Tokenizer
from serving.generation.answer import checked_limit, pieces
from tests.text_checkpoints import byte_level_bpe

END = 7


def answer(tokens, limit):
    said = list(pieces(tokens, frozenset({END}), limit, Tokenizer(byte_level_bpe())))
    assert all(piece.finish_reason == "" for piece in said[:-1])
    return [piece.token_ids for piece in said], said[-1].finish_reason


def test_an_end_token_stops_the_answer_and_is_not_part_of_it():
    assert answer([70, 71, END, 72], limit=9) == ([(70,), (71,), ()], "stop")


def test_a_full_answer_that_goes_on_is_cut_and_says_so():
    assert answer([70, 71, 72], limit=2) == ([(70,), (71,), ()], "length")


def test_an_answer_that_ends_just_at_its_limit_is_complete():
    assert answer([70, 71, END], limit=2) == ([(70,), (71,), ()], "stop")


def test_an_end_token_at_once_is_an_empty_answer():
    assert answer([END], limit=2) == ([()], "stop")


def test_no_more_tokens_are_asked_for_than_the_answer_needs():
    tokens = iter([70, 71, 72, 73])
    answer(tokens, limit=1)
    assert next(tokens) == 72


@pytest.mark.parametrize(("asked", "given"), [(None, 9), (1, 1), (9, 9)])
def test_a_limit_within_reach_is_kept_and_none_is_the_longest(asked, given):
    assert checked_limit(asked, 9, "the cache") == given


@pytest.mark.parametrize("asked", [0, -1, 10])
def test_a_limit_out_of_reach_is_refused_with_the_reason(asked):
    with pytest.raises(InputError, match="max_tokens from 1 to 9, the cache"):
        checked_limit(asked, 9, "the cache")
