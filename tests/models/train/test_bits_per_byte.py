import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from models.presets import PRESETS
from models.registry import FAMILIES
from models.train.bits_per_byte import BitsPerByte, decoder_bits, windows
from tests.models.agreement import randomised

WINDOW, VOCABULARY = 8, 31
STREAM = [(7 * place * place + 3) % VOCABULARY for place in range(29)]


@given(st.integers(0, 200), st.integers(2, 40))
def test_windows_take_each_position_as_new_exactly_once_and_in_order(length: int, window: int) -> None:
    found = [place for begin, end, seen in windows(length, window) for place in range(begin + seen, end)]
    assert found == list(range(length))


@given(st.integers(0, 200), st.integers(2, 40))
def test_no_window_is_too_long_and_each_new_position_has_half_a_window_before_it(length: int, window: int) -> None:
    for begin, end, seen in windows(length, window):
        assert 0 < end - begin <= window
        assert begin == 0 or seen >= window // 2


class Uniform(nn.Module):
    def forward(self, token_ids: torch.Tensor) -> torch.Tensor:
        return torch.zeros(*token_ids.shape, VOCABULARY)


class Oracle(nn.Module):
    """Knows the stream by heart: certain of the next token wherever a window begins."""

    def forward(self, token_ids: torch.Tensor) -> torch.Tensor:
        begin = next(b for b in range(len(STREAM)) if STREAM[b : b + token_ids.shape[1]] == token_ids[0].tolist())
        following = torch.tensor(STREAM[begin + 1 : begin + 1 + token_ids.shape[1]])
        return 100.0 * nn.functional.one_hot(following, VOCABULARY)[None]


def test_a_model_that_knows_nothing_needs_the_logarithm_of_the_vocabulary_for_every_token_but_the_first() -> None:
    assert decoder_bits(Uniform(), STREAM, WINDOW) == pytest.approx((len(STREAM) - 1) * math.log2(VOCABULARY))


def test_a_model_that_knows_what_comes_needs_nothing() -> None:
    assert decoder_bits(Oracle(), STREAM, WINDOW) == pytest.approx(0, abs=1e-6)


@torch.no_grad()
def test_each_token_is_scored_after_the_tokens_of_its_window_alone() -> None:
    model = randomised(FAMILIES["decoder"].build(PRESETS["llama-tiny"].config), torch.float64)
    bits = 0.0
    for place in range(1, len(STREAM)):
        begin = 0 if place <= WINDOW else (place - 1) // (WINDOW // 2) * (WINDOW // 2) - WINDOW // 2
        logits = model(torch.tensor([STREAM[begin:place]]))[0, -1]
        bits -= float(logits.log_softmax(0)[STREAM[place]]) / math.log(2)
    assert decoder_bits(model, STREAM, WINDOW) == pytest.approx(bits, rel=1e-12)
    assert decoder_bits(model, STREAM, 2 * WINDOW) != pytest.approx(bits, rel=1e-6)


def test_the_score_names_the_model_first_then_the_baselines_and_the_size() -> None:
    score = BitsPerByte(model=1.25, baselines={"5-gram": 1.5, "guessing": 8.0}, size=12345)
    assert str(score) == "1.250 (5-gram: 1.500; guessing: 8.000) over 12,345 bytes"
