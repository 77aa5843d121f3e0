import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers.generation import logits_process as hf

from attendant.errors import InputError
from attendant.sampling_params import SamplingParams
from serving.engine.sampling.logits_processors import (
    Banned,
    CountPenalty,
    ForcedFirst,
    History,
    LogitBias,
    RepetitionPenalty,
    create_processors,
)
from serving.engine.sampling.token_rules import TokenRules

V = 12
numbers = st.one_of(st.sampled_from([0.0, -1.0, 2.0, float("-inf")]), st.floats(-30, 30))
rows = st.lists(numbers, min_size=V, max_size=V).map(np.array)
tokens = st.lists(st.integers(0, V - 1), max_size=8)


def history(prompt, answer):
    so_far = History(prompt)
    for token in answer:
        so_far.add(token)
    return so_far


def ours(processor, logits, prompt, answer):
    changed, so_far = logits.copy(), history(prompt, answer)
    if processor.applies(so_far):
        processor(changed, so_far)
    return changed


def theirs(processor, logits, prompt, answer):
    return processor(torch.tensor([prompt + answer], dtype=torch.long), torch.tensor(logits)[None])[0].numpy()


@settings(deadline=None)
@given(rows, tokens, tokens, st.floats(0.1, 5))
def test_the_repetition_penalty_is_that_of_transformers(logits, prompt, answer, penalty):
    wanted = theirs(hf.RepetitionPenaltyLogitsProcessor(penalty), logits, prompt, answer)
    np.testing.assert_array_equal(ours(RepetitionPenalty(penalty), logits, prompt, answer), wanted)


@settings(deadline=None)
@given(rows, st.dictionaries(st.integers(0, V - 1), st.integers(-100, 100).map(float), min_size=1))
def test_the_logit_bias_is_that_of_transformers(logits, bias):
    wanted = theirs(hf.SequenceBiasLogitsProcessor({(token,): value for token, value in bias.items()}), logits, [0], [])
    (processor,) = create_processors(SamplingParams(logit_bias=bias), TokenRules())
    np.testing.assert_array_equal(ours(processor, logits, [0], []), wanted)


@settings(deadline=None)
@given(rows, tokens, tokens, st.integers(1, 8), st.sets(st.integers(0, V - 1), min_size=1))
def test_no_end_token_comes_before_the_least_number_of_tokens(logits, prompt, answer, least, end):
    library = hf.MinNewTokensLengthLogitsProcessor(len(prompt), least, list(end))
    rules, options = (
        TokenRules(end=frozenset(list(end)[:1])),
        SamplingParams(min_tokens=least, stop_token_ids=tuple(end)),
    )
    (processor,) = create_processors(options, rules)
    np.testing.assert_array_equal(
        ours(processor, logits, prompt, answer), theirs(library, logits, prompt, answer).astype(np.float64)
    )


@settings(deadline=None)
@given(rows, st.sets(st.integers(0, V - 1), min_size=1))
def test_suppressed_tokens_are_those_of_transformers(logits, never):
    (processor,) = create_processors(SamplingParams(), TokenRules(never=tuple(never)))
    wanted = theirs(hf.SuppressTokensLogitsProcessor(sorted(never)), logits, [0], [])
    np.testing.assert_array_equal(ours(processor, logits, [0], []), wanted)


@settings(deadline=None)
@given(rows, tokens, st.integers(0, V - 1))
def test_the_forced_first_token_is_that_of_transformers(logits, answer, first):
    wanted = theirs(hf.ForcedBOSTokenLogitsProcessor(first), logits, [0], answer)
    np.testing.assert_array_equal(ours(ForcedFirst(first), logits, [0], answer), wanted)


@given(rows, tokens, tokens, st.floats(-2, 2), st.floats(-2, 2))
def test_presence_and_frequency_penalties_follow_openais_formula(logits, prompt, answer, presence, frequency):
    counts = np.bincount(answer, minlength=V) if answer else np.zeros(V)
    wanted = logits - presence * (counts > 0) - frequency * counts
    np.testing.assert_allclose(ours(CountPenalty(presence, frequency), logits, prompt, answer), wanted, atol=1e-12)


@settings(deadline=None)
@given(rows, tokens, tokens, st.floats(0.1, 5), st.integers(-5, 5).map(float), st.integers(1, 4))
def test_all_together_stand_in_the_order_of_transformers(logits, prompt, answer, penalty, bias, least):
    prompt = prompt or [0]
    options = SamplingParams(repetition_penalty=penalty, logit_bias={3: bias}, min_tokens=least)
    changed, so_far = logits.copy(), history(prompt, answer)
    for processor in create_processors(options, TokenRules(end=frozenset({3}), never=(5,), first=3)):
        if processor.applies(so_far):
            processor(changed, so_far)
    library = [
        hf.SequenceBiasLogitsProcessor({(3,): bias}),
        hf.RepetitionPenaltyLogitsProcessor(penalty),
        hf.MinNewTokensLengthLogitsProcessor(len(prompt), least, [3]),
        hf.SuppressTokensLogitsProcessor([5]),
    ]
    wanted = logits
    for processor in library:
        wanted = theirs(processor, wanted, prompt, answer)
    if not answer:  # transformers forces it only where the decoder's prompt is one token, as every translator's is
        wanted = theirs(hf.ForcedBOSTokenLogitsProcessor(3), wanted, [0], [])
    np.testing.assert_array_equal(changed, wanted)


def test_only_what_is_asked_for_is_processed():
    assert create_processors(SamplingParams(), TokenRules(end=frozenset({1}))) == ()


@pytest.mark.parametrize("bias", [float("nan"), float("inf"), float("-inf")])
def test_a_bias_that_is_no_number_is_refused(bias):
    with pytest.raises(InputError, match="logit_bias"):
        create_processors(SamplingParams(logit_bias={1: bias}), TokenRules())


@pytest.mark.parametrize("token", [-1, V])
def test_a_bias_outside_the_vocabulary_is_refused(token):
    with pytest.raises(InputError, match=rf"logit_bias for tokens 0 to {V - 1}.*{token}"):
        LogitBias(np.array([token]), np.array([1.0]))(np.zeros(V), History([]))


def test_tokens_outside_the_vocabulary_harm_none_within():
    logits = np.zeros(V)
    Banned(np.array([-1, V, V + 7]))(logits, History([]))
    RepetitionPenalty(2.0)(logits, History([V, V + 7]))
    assert not logits.any()
