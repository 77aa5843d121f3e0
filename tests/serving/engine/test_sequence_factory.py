"""A request → its first sequence: what it may end with, who chooses its tokens, how its source is long."""

import numpy as np
import pytest

from attendant.errors import InputError
from serving.engine.request import create_first_sequence, create_sequence
from serving.engine.sampling.beam_search import BeamSearch
from serving.engine.sampling.logits_processors import ForcedFirst
from serving.engine.sampling.token_rules import TokenRules
from tests.serving.engine.sample_sequences import END, request_of, sequence, written


@pytest.fixture(scope="module")
def parts():
    return written(decoder=None)


def test_a_sequence_begins_with_the_prompt_of_which_nothing_is_cached(parts):
    one = sequence(parts, prompt=(5, 6, 7))
    assert (one.tokens, one.cached, one.num_pending, one.output_length, one.row) == ([5, 6, 7], 0, 3, 0, -1)
    assert one.request.sequences == [one]
    one.tokens.append(8)
    assert one.request.prompt == (5, 6, 7), "the prompt is the request's, the tokens are the sequence's"


@pytest.mark.parametrize(
    ("asked", "ends"),
    [
        ({}, {END}),
        ({"stop_token_ids": (9,)}, {END, 9}),
        ({"ignore_eos": True}, set()),
        ({"ignore_eos": True, "stop_token_ids": (9,)}, {9}),
    ],
)
def test_it_ends_with_the_checkpoints_end_tokens_unless_they_are_ignored_and_with_the_requests(parts, asked, ends):
    assert sequence(parts, **asked).ends == ends


@pytest.mark.parametrize(("prompt", "first"), [((5,), 7), ((5, 6), 0)])
def test_a_forced_first_token_follows_a_prompt_of_one_token_alone(prompt, first):
    forcing = written(decoder=None, rules=TokenRules(end=frozenset({END}), first=7))
    one = sequence(forcing, prompt=prompt)
    assert one.sampler.sample(np.zeros(320, dtype=np.float32)).token == first
    beams = sequence(forcing, prompt=prompt, beam_width=2).request.search
    assert any(isinstance(one, ForcedFirst) for one in beams._processors) == (first == 7)


@pytest.mark.parametrize("candidates", [1, 3])
def test_a_request_is_over_when_each_of_its_answers_is(parts, candidates):
    request = sequence(parts, temperature=1.0, n=candidates).request
    assert (request.unfinished, request.rows, request.search) == (candidates, candidates, None)


def test_beams_are_one_search_that_ends_once(parts):
    request = sequence(parts, beam_width=3, n=2).request
    assert isinstance(request.search, BeamSearch) and (request.unfinished, request.rows) == (1, 3)


def test_only_who_wants_drafts_looks_tokens_up(parts):
    assert sequence(parts).lookup is None
    assert sequence(parts, prompt=(5, 6, 5, 7, 5), num_speculative_tokens=2).lookup.draft(2) == [7, 5]


def test_candidates_draw_numbers_of_their_own(parts):
    request = sequence(parts, temperature=1.0, n=8, seed=1).request
    logits_V = np.zeros(320, dtype=np.float32)
    chosen = [
        create_sequence(request, candidate, [5, 6], parts).sampler.sample(logits_V).token for candidate in range(8)
    ]
    assert len(set(chosen)) > 4
    assert create_sequence(request, 2, [5, 6], parts).sampler.sample(logits_V).token == chosen[2]


def test_a_guide_holds_each_sequence_by_itself(parts):
    request = sequence(parts, regex="[ab]").request
    one, other = (create_sequence(request, candidate, [5], parts) for candidate in range(2))
    a = parts.tokenizer.encode("a", 9)[-1]
    one.sampler.take(a)
    assert one.sampler.is_complete and not other.sampler.is_complete


def test_a_guide_that_cannot_be_followed_is_the_requests_error(parts):
    with pytest.raises(InputError, match="a regular expression that llguidance can follow"):
        sequence(parts, regex="[a")


def test_the_length_of_a_source_is_that_of_its_mask(parts):
    one = request_of()
    assert create_first_sequence(one, parts).request.source_length == 0
    one.memories = {"source_mask": np.array([True, True, True, False])}
    assert create_first_sequence(one, parts).request.source_length == 3
