import pytest

from models.manifest import Manifest
from serving.generation.greedy import greedy
from serving.generation.token_rules import TokenRules
from serving.runtime.cached_decoder import CachedDecoder
from serving.runtime.create_runners import create_runners

PROMPT = [0, 290, 277, 97, 83]


@pytest.fixture(scope="module")
def runner(language_model):
    return create_runners(language_model, Manifest.read(language_model))["decoder"]


def continued(runner, rules, count, prompt=PROMPT):
    return list(greedy(CachedDecoder(runner, 1), prompt, rules, count))


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
