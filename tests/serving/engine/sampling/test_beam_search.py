"""Equality with transformers' ``generate``, and what it leaves to chance: ties."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attendant.errors import InputError
from attendant.sampling_params import EARLY_STOPPING, SamplingParams
from serving.engine.sampling.beam_search import BeamSearch
from serving.engine.sampling.token_rules import TokenRules
from tests.serving.engine.transformers_answers import their_answers
from tests.serving.engine.transformers_models import (
    KINDS,
    READERS,
    START,
    VOCABULARY,
    logits_after,
    random_model,
    subject,
)

tokens = st.integers(0, VOCABULARY - 1)


@st.composite
def searches(draw):
    """A model, what it is asked and the rules of its tokens."""
    name, width = draw(st.sampled_from(sorted(KINDS))), draw(st.integers(2, 4))
    end, stop_token_ids = some(draw, (0, 1, 2, 4)), some(draw, (0, 1))
    every_end = end | stop_token_ids
    first = draw(st.none() | tokens.filter(lambda token: token not in every_end))
    biased = [*some(draw, (0, 3)), *(every_end if draw(st.booleans()) else ())]
    options = SamplingParams(
        beam_width=width,
        n=draw(st.integers(1, width)),
        length_penalty=draw(st.sampled_from([0.0, 1.0, -1.0, 0.6, 2.5])),
        early_stopping=draw(st.sampled_from(EARLY_STOPPING)),
        repetition_penalty=draw(st.sampled_from([1.0, 1.3, 0.7])),
        min_tokens=draw(st.sampled_from([0, 0, 1, 4])),
        logit_bias={token: round(draw(st.floats(-3, 5)), 3) for token in biased},
        stop_token_ids=tuple(stop_token_ids),
        presence_penalty=draw(st.sampled_from([0.0, 0.0, 0.5])),
        frequency_penalty=draw(st.sampled_from([0.0, 0.0, 0.7])),
        max_tokens=draw(st.sampled_from([4, 5, 8, 12])),
    )
    never = tuple(some(draw, (0, 2)) - {first} - every_end)
    prompt = [START] if name in READERS or first is not None else draw(st.lists(tokens, min_size=1, max_size=4))
    return name, prompt, options, TokenRules(end=end, first=first, never=never)


def some(draw, sizes):
    size = draw(st.sampled_from(sizes))
    return draw(st.frozensets(tokens, min_size=size, max_size=size))


def ours(name, prompt, options, rules):
    search, rows = BeamSearch(options, rules, prompt, options.max_tokens), [prompt]
    while (advance := search.advance(logits_after(name, rows))) is not None:
        rows = [[*rows[parent], token] for parent, token in zip(advance.parents, advance.tokens, strict=True)]
    return [(one.tokens, one.finish_reason, pytest.approx(one.score, rel=1e-5, abs=1e-5)) for one in search.best()]


@settings(max_examples=120, deadline=None, derandomize=True, database=None)
@given(searches())
def test_the_best_beams_are_those_of_transformers_with_their_scores(search):
    name, prompt, options, rules = search
    assert ours(*search) == their_answers(random_model(name), subject(name, prompt), len(prompt), options, rules)


WIDE = SamplingParams(beam_width=2, n=2)


def begun(options=WIDE, end=(), limit=9, **rules):
    return BeamSearch(options, TokenRules(end=frozenset(end), **rules), [START], limit)


def logits(*rows):
    return np.array(rows, dtype=np.float32)


def said(advance):
    return list(zip(advance.parents.tolist(), advance.tokens.tolist(), strict=True))


def test_of_equally_probable_tokens_the_first_comes_first_and_of_equal_beams_the_earlier_goes_on():
    search = begun()
    assert said(search.advance(logits([5, 7, 7, 7]))) == [(0, 1), (0, 2)]
    assert said(search.advance(logits([0, 5, 5, 0], [5, 0, 5, 0]))) == [(0, 1), (0, 2)]
    assert said(search.advance(logits([0, 0, 0, 9], [9, 0, 0, 0]))) == [(0, 3), (1, 0)]
    assert said(begun().advance(logits([0] * 100))) == [(0, 0), (0, 1)]


def test_of_answers_with_the_same_score_the_one_that_ended_first_stands_first():
    search = begun(SamplingParams(beam_width=2, n=2, length_penalty=0), end=[0])
    assert said(search.advance(logits([0, 0, -100, -100])))[0] == (0, 1)
    assert search.advance(logits([100, 0, 0, 0], [100, 0, 0, 0])) is None
    assert [(one.tokens, round(one.score, 6)) for one in search.best()] == [((), -0.693147), ((1,), -0.693147)]


def test_a_search_ends_where_no_running_beam_is_better_than_the_worst_answer():
    search = begun(SamplingParams(beam_width=2, n=2, length_penalty=0), end=[0])
    search.advance(logits([0, 0, -100, -100]))
    assert search.advance(logits([0, 0, -100, -100], [0, 0, 0, 0])) is None
    assert [one.tokens for one in search.best()] == [(), (1,)]


def test_where_length_costs_a_running_beam_is_judged_by_its_length_so_far():
    search = begun(SamplingParams(beam_width=2, length_penalty=-1, early_stopping="never"), end=[0])
    assert said(search.advance(np.log(logits([0.05, 0.9, 0.04, 0.01])))) == [(0, 1), (0, 2)]
    assert said(search.advance(np.log(logits([0.3, 0.68, 0.01, 0.01], [0.25] * 4))))[0] == (0, 1)
    assert [one.tokens for one in search.best()] == [(1,)]


def test_as_many_beams_run_on_when_the_most_probable_tokens_of_all_are_ends():
    search = begun(SamplingParams(beam_width=2, early_stopping="never"), end=[0, 1, 2])
    assert said(search.advance(logits([9, 9, 9, 8, 7]))) == [(0, 3), (0, 4)]


def test_an_end_that_is_not_among_the_best_of_all_is_no_answer():
    search = begun(end=[0], limit=2)
    search.advance(logits([8, 9, 9, 0]))
    assert search.advance(logits([0, 9, 9, 9], [0, 9, 9, 9])) is None
    assert [(one.tokens, one.finish_reason) for one in search.best()] == [((1, 1), "length"), ((1, 2), "length")]


def test_a_prompts_logits_may_come_once_or_once_a_beam():
    row = [3, 1, 2, 0]
    assert said(begun().advance(logits(row))) == said(begun().advance(logits(row, row))) == [(0, 0), (0, 2)]


def test_where_fewer_can_go_on_than_there_are_beams_nothing_comes_of_the_rows_left_over():
    search = begun(first=3)
    assert said(search.advance(logits([0, 1, 2, 3]))) == [(0, 3), (0, 0)]
    assert said(search.advance(logits([2, 1, 0, 0], [0, 0, 0, 99]))) == [(0, 0), (0, 1)]


def test_of_one_token_that_is_given_there_is_one_answer():
    search = begun(first=3, limit=1)
    assert search.advance(logits([0, 1, 2, 3])) is None
    assert [(one.tokens, one.score) for one in search.best()] == [((3,), 0.0)]


def test_each_beam_is_penalised_for_its_own_tokens():
    search = begun(SamplingParams(beam_width=2, frequency_penalty=2.0, presence_penalty=1.0))
    assert said(search.advance(logits([9, 8.5, 0, 0]))) == [(0, 0), (0, 1)]
    assert said(search.advance(logits([9, 8, 0, 0], [9, 8, 0, 0]))) == [(1, 0), (0, 1)]
    assert said(search.advance(logits([9, 9, 8, 0], [9, 9, 8, 0]))) == [(0, 2), (1, 2)]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_logits_that_are_no_numbers_are_refused(bad):
    with pytest.raises(InputError, match="logits that are numbers"):
        begun().advance(logits([bad] * 4))


def test_a_search_that_no_token_may_go_on_is_refused():
    with pytest.raises(InputError, match="none as token 1"):
        begun(never=(0, 1, 2, 3)).advance(logits([0, 1, 2, 3]))
