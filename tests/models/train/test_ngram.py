import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attendant.errors import ConfigError
from models.train.ngram import KneserNey
from tests.models.train.kneser_ney import DirectKneserNey

VOCABULARY, START, ORDER = 6, 0, 3


def random_streams(seed: int = 0) -> list[list[int]]:
    """Skewed tokens of which the last of the vocabulary never comes."""
    generator = np.random.default_rng(seed)
    shares = np.array([4, 8, 4, 2, 1]) / 19
    return [generator.choice(VOCABULARY - 1, size, p=shares).tolist() for size in (60, 40, 1, 90)]


STREAMS = random_streams()
MODEL = KneserNey(ORDER, VOCABULARY, START, STREAMS)
DIRECT = DirectKneserNey(ORDER, VOCABULARY, START, STREAMS)
stream = st.lists(st.integers(0, VOCABULARY - 1), max_size=8)


def difference(direct: DirectKneserNey, tokens: list[int]) -> float:
    expected = [direct.probability(tokens[:place], token) for place, token in enumerate(tokens)]
    return float(np.abs(MODEL.probabilities(tokens) - expected).max())


@given(stream)
def test_probabilities_over_the_vocabulary_sum_to_one_after_any_context(context: list[int]) -> None:
    every = [MODEL.probabilities([*context, token])[-1] for token in range(VOCABULARY)]
    assert sum(every) == pytest.approx(1, abs=1e-12)
    assert min(every) > 0


@settings(max_examples=30)
@given(stream.filter(bool))
def test_the_model_agrees_with_the_formulas_counted_directly(tokens: list[int]) -> None:
    assert difference(DIRECT, tokens) <= 1e-12


@pytest.mark.planted
def test_plain_counts_instead_of_continuation_counts_would_be_noticed() -> None:
    plain = DirectKneserNey(ORDER, VOCABULARY, START, STREAMS, continuation_counts=False)
    assert difference(plain, random_streams(1)[0]) > 1e-3


def test_the_bits_of_a_stream_are_those_of_its_tokens_each_after_those_before_it() -> None:
    tokens = random_streams(2)[1]
    one_by_one = [DIRECT.probability(tokens[:place], token) for place, token in enumerate(tokens)]
    assert MODEL.bits(tokens) == pytest.approx(-sum(map(math.log2, one_by_one)), rel=1e-12)


def test_a_longer_context_helps_where_the_text_repeats_itself() -> None:
    phrase = [1, 2, 3, 1, 3, 2, 4, 4, 1]
    streams = [*STREAMS, phrase * 6]
    three, two = (KneserNey(order, VOCABULARY, START, streams).bits(phrase * 2) for order in (3, 2))
    assert three < two


def test_n_grams_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ConfigError, match="lower the order"):
        KneserNey(5, 10_000, START, STREAMS)
