import numpy as np
import pytest

from models.manifest import Manifest
from serving.generation.greedy import TokenRules, greedy
from serving.runtime.cached_decoder import CachedDecoder
from serving.runtime.create_runners import create_runners

PROMPT = [0, 290, 277, 97, 83]


@pytest.fixture(scope="module")
def runner(language_model):
    return create_runners(language_model, Manifest.read(language_model))["decoder"]


def continued(runner, rules, count, prompt=PROMPT):
    return list(greedy(CachedDecoder(runner, 1), prompt, rules, count))


def test_the_rules_are_read_from_the_details_of_every_family():
    assert TokenRules.of({}) == TokenRules()
    assert TokenRules.of({"end_token": 0}).end == {0}
    details = {"end_tokens": [3, 4], "end_token": 5, "forced_start_token": 0, "suppressed_tokens": [1]}
    assert TokenRules.of(details) == TokenRules(end=frozenset({3, 4, 5}), first=0, never=(1,))


def test_the_most_probable_token_is_chosen_unless_it_is_suppressed():
    logits = np.array([0.1, 3.0, 2.0, -1.0], dtype=np.float32)
    assert TokenRules().choose(logits, 0) == 1
    assert TokenRules(never=(1,)).choose(logits, 0) == 2
    assert logits.tolist() == np.float32([0.1, 3.0, 2.0, -1.0]).tolist(), "and the scores are not touched"


def test_a_forced_token_comes_first_and_only_there():
    logits = np.array([0.0, 1.0], dtype=np.float32)
    rules = TokenRules(first=0)
    assert [rules.choose(logits, count) for count in range(3)] == [0, 1, 1]


def test_decoding_a_prompt_at_once_equals_feeding_it_the_answers_own_tokens(runner):
    tokens = continued(runner, TokenRules(), 8)
    for split in range(1, 8):
        assert continued(runner, TokenRules(), 8 - split, PROMPT + tokens[:split]) == tokens[split:]


def test_an_end_token_is_the_last(runner):
    tokens = continued(runner, TokenRules(), 8)
    end = tokens[4]
    assert continued(runner, TokenRules(end=frozenset({end})), 8) == tokens[: tokens.index(end) + 1]


def test_a_suppressed_token_never_comes_and_changes_what_follows(runner):
    free = continued(runner, TokenRules(), 8)
    ruled = continued(runner, TokenRules(never=(free[2],)), 8)
    assert ruled[:2] == free[:2] and ruled[2] != free[2] and free[2] not in ruled
