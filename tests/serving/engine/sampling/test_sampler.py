import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from transformers import GPT2Config, GPT2LMHeadModel

from attendant.errors import InputError
from attendant.sampling_params import SamplingParams
from serving.engine.sampling.sampler import Sampler, inverse_cdf
from serving.engine.sampling.token_rules import TokenRules

V = 8
LOGITS = np.array([0.5, 2.0, -1.0, 1.9, -np.inf, 0.0, 1.0, -3.0], dtype=np.float32)
P = np.exp(LOGITS.astype(np.float64)) / np.exp(LOGITS.astype(np.float64)).sum()
DRAWS = 4000


def sampler(rules=None, prompt=(1, 2), seed=0, candidate=0, guide=None, **options):
    rules = rules or TokenRules()
    return Sampler(SamplingParams(**options), rules, prompt, seed=seed, candidate=candidate, guide=guide)


def drawn(logits=LOGITS, count=DRAWS, **arguments):
    one = sampler(**({"temperature": 1.0} | arguments))
    return [one.sample(logits).token for _ in range(count)]


def chi_square_p(tokens, expected):
    """The probability of a statistic at least as large, by Wilson and Hilferty's normal approximation."""
    from math import erf, sqrt

    kept = expected > 0
    counts = np.bincount(tokens, minlength=V)
    assert not counts[~kept].any()
    wanted = expected[kept] * len(tokens)
    statistic, degrees = ((counts[kept] - wanted) ** 2 / wanted).sum(), kept.sum() - 1
    z = ((statistic / degrees) ** (1 / 3) - (1 - 2 / (9 * degrees))) / sqrt(2 / (9 * degrees))
    return 1 - 0.5 * (1 + erf(z / sqrt(2)))


CASES = {
    "temperature 1": ({}, P),
    "temperature 0.5": ({"temperature": 0.5}, P**2),
    "top-k": ({"top_k": 3}, np.where(np.isin(range(V), [1, 3, 6]), P, 0)),
    "top-p": ({"top_p": 0.6}, np.where(np.isin(range(V), [1, 3]), P, 0)),
    "min-p": ({"min_p": 0.3}, np.where(P / P.max() >= 0.3, P, 0)),
    "bias": ({"logit_bias": {7: 4.0}}, P * np.exp(4.0 * (np.arange(V) == 7))),
    "repetition": (
        {"repetition_penalty": 2.0, "prompt": (1, 2, *range(V))},
        np.exp(np.where(LOGITS < 0, LOGITS * 2, LOGITS / 2)),
    ),
    "suppressed": ({"rules": TokenRules(never=(1,))}, np.where(np.arange(V) == 1, 0, P)),
}


@pytest.mark.parametrize("case", CASES)
def test_tokens_are_drawn_from_the_exact_distribution(case):
    arguments, expected = CASES[case]
    for seed in range(3):
        assert chi_square_p(drawn(seed=seed, **arguments), expected / expected.sum()) > 1e-4


@pytest.mark.planted
def test_the_measure_of_the_test_above_finds_a_small_bias():
    wrong = P + 0.06 * (np.arange(V) == 1)
    assert chi_square_p(drawn(), wrong / wrong.sum()) < 1e-4


def test_streams_of_other_seeds_and_candidates_are_independent():
    streams = [drawn(seed=seed, candidate=candidate, count=1000) for seed in (0, 1, 2**64 - 1) for candidate in (0, 1)]
    expected = (P**2).sum()
    for first in range(len(streams)):
        for second in range(first):
            same = np.mean(np.equal(streams[first], streams[second]))
            assert abs(same - expected) < 5 * np.sqrt(expected * (1 - expected) / 1000)


def test_successive_draws_are_independent():
    tokens = drawn(count=3000)
    same = np.mean(np.equal(tokens[1:], tokens[:-1]))
    expected = (P**2).sum()
    assert abs(same - expected) < 5 * np.sqrt(expected * (1 - expected) / 3000)


def test_a_draw_depends_on_seed_candidate_and_position_alone():
    whole = drawn(seed=7, candidate=3, count=20)
    for position in (0, 1, 19):
        other = sampler(temperature=1.0, seed=7, candidate=3, prompt=(5,))
        for token in (0,) * position:
            other.take(token)
        assert other.sample(LOGITS).token == whole[position]


def test_a_seed_means_the_same_in_every_version():
    assert drawn(seed=1, count=8) == [1, 6, 1, 3, 1, 6, 0, 1]
    assert drawn(seed=1, candidate=1, count=8) == [0, 5, 6, 3, 1, 3, 3, 1]
    assert drawn(seed=2, count=8) == [3, 1, 6, 0, 1, 1, 0, 3]


few = st.lists(st.floats(0, 1), min_size=1, max_size=20).filter(any).map(np.array)
many = st.builds(
    lambda seed, size: np.maximum(np.random.default_rng(seed).normal(size=size), 0),
    st.integers(0, 99),
    st.integers(9, 2000),
).filter(any)


@given(st.one_of(few, many), st.floats(0, 1, exclude_max=True))
@example(np.array([0.0, 0.1, 0.2, 0.0]), 1 - 2**-53)
@example(np.concatenate([np.zeros(600), [0.1], np.zeros(600)]), 0.0)
def test_the_inverse_of_the_distribution_never_gives_what_cannot_come(weights, uniform):
    index = inverse_cdf(weights, uniform)
    assert weights[index] > 0
    share, rounding = uniform * weights.sum(), 1e-12 * weights.sum() + 1e-300
    assert weights[:index].sum() <= share + rounding
    assert weights[: index + 1].sum() >= share - rounding


def test_greedy_decoding_takes_the_first_of_the_largest_logits_that_are_left():
    tied = np.array([0, 3, 1, 3, 3, 2, 0, 0], dtype=np.float32)
    assert sampler().sample(tied).token == 1
    assert sampler(rules=TokenRules(never=(1,))).sample(tied).token == 3
    assert sampler(logit_bias={2: 2.5}).sample(tied).token == 2
    assert sampler(prompt=(1, 3), repetition_penalty=1.5).sample(tied).token == 4
    assert sampler(rules=TokenRules(first=6)).sample(tied).token == 6
    ends = sampler(rules=TokenRules(end=frozenset({1})), stop_token_ids=(3,), min_tokens=2)
    assert [ends.sample(tied).token for _ in range(3)] == [4, 4, 1]


def test_the_answer_itself_is_penalised_as_it_grows():
    tied = np.array([0, 3, 2.5, 0, 0, 0, 0, 0], dtype=np.float32)
    often = sampler(prompt=(1,), frequency_penalty=0.4)
    assert [often.sample(tied).token for _ in range(6)] == [1, 1, 2, 1, 2, 1]
    once = sampler(prompt=(1,), presence_penalty=0.6)
    assert [once.sample(tied).token for _ in range(4)] == [1, 2, 1, 1]


PLAIN = {
    "nothing asked": ({}, [True, True, True]),
    "drawn": ({"temperature": 0.7}, [False] * 3),
    "log-probabilities": ({"logprobs": True}, [False] * 3),
    "bias": ({"logit_bias": {1: 1.0}}, [False] * 3),
    "repetition": ({"repetition_penalty": 1.1}, [False] * 3),
    "presence": ({"presence_penalty": 0.1}, [True, False, False]),
    "least": ({"min_tokens": 2, "stop_token_ids": (3,)}, [False, False, True]),
    "least, without an end": ({"min_tokens": 2}, [True] * 3),
    "first": ({"rules": TokenRules(first=3)}, [False, True, True]),
    "never": ({"rules": TokenRules(never=(3,))}, [False] * 3),
    "guide": ({"guide": "anything"}, [False]),
}


@pytest.mark.parametrize("case", PLAIN)
def test_a_choice_is_plain_where_it_is_the_largest_logit_and_nothing_else(case):
    arguments, wanted = PLAIN[case]
    one, found = sampler(**arguments), []
    for _ in wanted:
        found.append(one.is_plain)
        if one._guide is None:
            one.take(0)
    assert found == wanted


@given(st.integers(0, 2**32))
def test_a_plain_choice_is_the_largest_logit(seed):
    logits = np.random.default_rng(seed).normal(size=V).astype(np.float32)
    one = sampler()
    assert one.is_plain and one.sample(logits).token == logits.argmax()


def test_log_probabilities_are_the_models_own_whatever_is_asked():
    asked = {"logprobs": True, "top_logprobs": 3, "logit_bias": {7: 50.0}}
    for more in ({}, {"temperature": 0.1, "top_k": 1}):
        choice = sampler(**asked, **more).sample(LOGITS)
        assert choice.token == 7
        assert choice.logprob == pytest.approx(np.log(P[7]))
        assert choice.top == tuple((token, pytest.approx(np.log(P[token]))) for token in (1, 3, 6))


def test_of_equally_probable_tokens_the_first_are_told():
    top = sampler(logprobs=True, top_logprobs=2).sample(np.zeros(V, dtype=np.float32)).top
    assert [token for token, _ in top] == [0, 1]
    assert sampler(logprobs=True).sample(LOGITS).top == () and sampler().sample(LOGITS).logprob is None
    assert len(sampler(logprobs=True, top_logprobs=20).sample(LOGITS).top) == V


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_logits_that_are_no_numbers_are_refused(value):
    broken = LOGITS.copy()
    broken[2] = value
    one = sampler(temperature=1.0)
    one.take(3)
    with pytest.raises(InputError, match=f"{value} for token 2"):
        one.sample(broken)
    with pytest.raises(InputError, match="for token 1"):
        sampler().sample(np.full(V, -np.inf, dtype=np.float32))


def test_an_answer_that_may_not_go_on_is_refused():
    with pytest.raises(InputError, match="none as token 1"):
        sampler(rules=TokenRules(never=tuple(range(V)))).sample(LOGITS)


def test_the_given_logits_are_not_touched():
    logits = LOGITS.copy()
    sampler(temperature=1.0, top_p=0.5, logit_bias={1: 3.0}, rules=TokenRules(never=(0,))).sample(logits)
    np.testing.assert_array_equal(logits, LOGITS)


@pytest.fixture(scope="module")
def gpt2():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = GPT2Config(vocab_size=40, n_positions=32, n_embd=16, n_layer=1, n_head=2, initializer_range=0.3)
        return GPT2LMHeadModel(config).eval()


@settings(deadline=None, max_examples=25)
@given(
    prompt=st.lists(st.integers(0, 39), min_size=1, max_size=8),
    penalty=st.sampled_from([1.0, 0.7, 1.3, 2.0]),
    bias=st.dictionaries(st.integers(0, 39), st.sampled_from([-5.0, -1.0, 1.0, 4.0]), max_size=3),
    least=st.integers(0, 6),
    end=st.sets(st.integers(0, 39), min_size=1, max_size=10),
    never=st.sets(st.integers(0, 39), max_size=10),
)
@torch.no_grad()
def test_greedy_decoding_is_token_for_token_that_of_transformers(gpt2, prompt, penalty, bias, least, end, never):
    ids = torch.tensor([prompt])
    wanted = gpt2.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        do_sample=False,
        max_new_tokens=8,
        min_new_tokens=least,
        repetition_penalty=penalty,
        sequence_bias={(token,): value for token, value in bias.items()} or None,
        suppress_tokens=sorted(never) or None,
        eos_token_id=sorted(end),
        pad_token_id=0,
    )[0, len(prompt) :].tolist()
    rules = TokenRules(end=frozenset(end), never=tuple(never))
    one = sampler(rules, prompt, repetition_penalty=penalty, logit_bias=bias, min_tokens=least)
    tokens = []
    while len(tokens) < 8 and not end.intersection(tokens[-1:]):
        logits = gpt2(torch.tensor([prompt + tokens])).logits[0, -1].numpy()
        plain = int(logits.argmax()) if one.is_plain else None
        tokens.append(one.sample(logits).token)
        assert plain in (None, tokens[-1])
    assert tokens == wanted
