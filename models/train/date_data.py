"""The data of the date models: dates in English and in numbers, and their ISO 8601 form, letter by letter.

Dates are split, not strings: a held-out date was trained on in no format. 1997-03-03 is held out by construction.

Legend: B batch, S source positions, T target positions.
"""

import datetime
from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

from attendant.config import require
from attendant.tokenizer import Tokenizer
from models.generate import pad_sources
from models.train.date_formats import FORMATS, every_day, write_date
from models.train.date_tokenizer import ALPHABET, SPECIALS, date_tokenizer
from models.train.split import hash_order

EXAMPLE_DATE = "1997-03-03"
HELD_OUT_DATES = 3000
HELD_OUT_STRINGS = 2000
VOCABULARY_SIZE = len(SPECIALS) + len(ALPHABET)
MAX_SOURCE_LENGTH = 48
MAX_TARGET_LENGTH = 16

Batch = tuple[Tensor, Tensor, Tensor]
"""Source ids ``[B, S]``, their mask ``[B, S]`` and target ids ``[B, T]`` with start and end token."""


class SpecialTokens(Protocol):
    """The part of a configuration that batches depend on."""

    @property
    def pad_token(self) -> int:
        """What fills short sources."""

    @property
    def start_token(self) -> int: ...

    @property
    def end_token(self) -> int: ...


def split_dates() -> tuple[list[datetime.date], list[datetime.date]]:
    """The dates to train on, and the 3,000 that are held out, :data:`EXAMPLE_DATE` first."""
    others = [date.isoformat() for date in every_day() if date.isoformat() != EXAMPLE_DATE]
    ordered = [datetime.date.fromisoformat(name) for name in [EXAMPLE_DATE, *hash_order(others)]]
    return ordered[HELD_OUT_DATES:], ordered[:HELD_OUT_DATES]


def held_out(count: int = HELD_OUT_STRINGS) -> list[tuple[str, str]]:
    """Texts that were never trained on and their ISO dates: each of another date, the formats in turn.

    Raises:
        ConfigError: more are wanted than dates are held out.
    """
    require(0 < count <= HELD_OUT_DATES, f"1 to {HELD_OUT_DATES} held-out dates", count, "ask for fewer")
    dates = split_dates()[1][:count]
    return [(write_date(date, FORMATS[n % len(FORMATS)]), date.isoformat()) for n, date in enumerate(dates)]


def training_texts(count: int) -> list[str]:
    """Texts of training dates, each of another date, the formats in turn."""
    return [write_date(date, FORMATS[n % len(FORMATS)]) for n, date in enumerate(split_dates()[0][:count])]


def random_batches(size: int, seed: int, tokens: SpecialTokens) -> Callable[[], Batch]:
    """A source of batches of random training dates in random formats; the same ones for the same seed."""
    dates, generator, tokenizer = split_dates()[0], torch.Generator().manual_seed(seed), Tokenizer(date_tokenizer())

    def draw(choices: int) -> list[int]:
        drawn: list[int] = torch.randint(choices, (size,), generator=generator).tolist()
        return drawn

    def batch() -> Batch:
        chosen = [dates[index] for index in draw(len(dates))]
        texts = [write_date(date, FORMATS[index]) for date, index in zip(chosen, draw(len(FORMATS)), strict=True)]
        sources = [tokenizer.encode(text, MAX_SOURCE_LENGTH) for text in texts]
        answers = [tokenizer.encode(date.isoformat(), MAX_TARGET_LENGTH) for date in chosen]
        targets = [[tokens.start_token, *answer, tokens.end_token] for answer in answers]
        return *pad_sources(sources, tokens.pad_token), torch.tensor(targets)

    return batch
