"""``dates-transformer``: dates in English and in numbers to ISO 8601, letter by letter.

Dates are split, not strings: a held-out date was trained on in no format. 1997-03-03 is held out by construction.

Legend: B batch, S source positions, T target positions.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.config import require
from models.families.seq2seq import Seq2SeqConfig, Seq2SeqTransformer
from models.generate import greedy, pad_sources
from models.tokenization import TOKENIZER_NAME, Tokenizer
from models.train.date_formats import FORMATS, every_day, written
from models.train.date_tokenizer import ALPHABET, SPECIALS, date_tokenizer
from models.train.loop import Report, Schedule, optimise, reproducible
from models.train.split import hash_order
from models.train.task import Card, Score, TrainingTask

EXAMPLE_DATE = "1997-03-03"
HELD_OUT_DATES = 3000
HELD_OUT_STRINGS = 2000

CONFIG = Seq2SeqConfig(
    vocabulary_size=len(SPECIALS) + len(ALPHABET),
    layers=2,
    width=64,
    heads=4,
    mlp_width=256,
    max_source_length=48,
    max_target_length=16,
    dropout=0.0,
)
SCHEDULE = Schedule(steps=1000, batch=128, peak_rate=3e-3, weight_decay=0.01)


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
    return [(written(date, FORMATS[n % len(FORMATS)]), date.isoformat()) for n, date in enumerate(dates)]


def exact_match(model: nn.Module, pairs: Sequence[tuple[str, str]] | None = None) -> Score:
    """How many texts become exactly their date by greedy decoding; the held-out ones unless others are given."""
    assert isinstance(model, Seq2SeqTransformer)
    texts, truths = zip(*(held_out() if pairs is None else pairs), strict=True)
    tokenizer = Tokenizer(date_tokenizer())
    sources = [tokenizer.encode(text, model.config.max_source_length) for text in texts]
    answers = greedy(model, *pad_sources(sources, model.config.pad_token), model.config.max_target_length - 1)
    return Score.of(map(tokenizer.decode, answers), truths)


def train(seed: int, report: Report, schedule: Schedule = SCHEDULE) -> Seq2SeqTransformer:
    """Train from random weights; the same seed gives the same weights on the same machine."""
    with reproducible(seed):
        model = Seq2SeqTransformer(CONFIG)
        batches = _batches(split_dates()[0], schedule.batch, torch.Generator().manual_seed(seed))
        optimise(model, lambda: _loss(model, *batches()), schedule, report)
    return model


Batch = tuple[Tensor, Tensor, Tensor]


def _batches(dates: list[datetime.date], size: int, generator: torch.Generator) -> Callable[[], Batch]:
    tokenizer = Tokenizer(date_tokenizer())

    def draw(choices: int) -> list[int]:
        drawn: list[int] = torch.randint(choices, (size,), generator=generator).tolist()
        return drawn

    def batch() -> Batch:
        chosen = [dates[index] for index in draw(len(dates))]
        texts = [written(date, FORMATS[index]) for date, index in zip(chosen, draw(len(FORMATS)), strict=True)]
        sources = [tokenizer.encode(text, CONFIG.max_source_length) for text in texts]
        return *pad_sources(sources, CONFIG.pad_token), _targets(tokenizer, chosen)

    return batch


def _targets(tokenizer: Tokenizer, dates: list[datetime.date]) -> Tensor:
    answers = [tokenizer.encode(date.isoformat(), CONFIG.max_target_length) for date in dates]
    return torch.tensor([[CONFIG.start_token, *answer, CONFIG.end_token] for answer in answers])


def _loss(model: nn.Module, source_BS: Tensor, mask_BS: Tensor, target_BT: Tensor) -> Tensor:
    logits_BTV = model(source_BS, mask_BS, target_BT[:, :-1])
    return F.cross_entropy(logits_BTV.flatten(0, 1), target_BT[:, 1:].flatten())


def _example() -> dict[str, object]:
    text, answer = held_out(1)[0]
    return {"inputs": {"text": text}, "answer": answer}


def _write_tokenizer(folder: Path) -> None:
    (folder / TOKENIZER_NAME).write_text(date_tokenizer().to_str(pretty=True) + "\n", encoding="utf-8")


CARD = Card(
    title="Dates to ISO 8601, a character-level Transformer",
    purpose="A small encoder-decoder that a laptop trains in about a minute: the demonstration of translation in "
    "this repository (`3rd of march 1997` → `1997-03-03`). Not meant for anything else; a parser does the task better.",
    data=f"Made by `models/train/date_formats.py`: every day from 1900-01-01 to 2099-12-31 in {len(FORMATS)} formats. "
    "Dots are day first, slashes are month first unless the year leads, hyphens between numbers are ISO; years "
    "have four digits.\n\n"
    + "\n".join(f"* `{written(datetime.date.fromisoformat(EXAMPLE_DATE), pattern)}`" for pattern in FORMATS),
    licence="The data is generated; this repository's licence (Apache-2.0) covers the weights.",
    split=f"Dates, not strings, are split by the SHA-256 of their ISO form: {HELD_OUT_DATES:,} of 73,049 were trained "
    f"on in no format. {EXAMPLE_DATE}, the example of `config.json`, is held out by construction. The metric takes "
    f"{HELD_OUT_STRINGS:,} of the held-out dates, each in one format, the formats in turn.",
    recipe=f"AdamW, {SCHEDULE.steps:,} steps of {SCHEDULE.batch} random dates in random formats, peak rate "
    f"{SCHEDULE.peak_rate}, warm-up {SCHEDULE.warmup:.0%}, cosine to zero, weight decay {SCHEDULE.weight_decay}, "
    "no dropout. Chosen among four recipes on 1,000 of the training dates; the held-out dates chose nothing.",
    limits="It knows these formats only, English only, and it always answers, without a warning: `31 february 1999` "
    "becomes `1999-02-31`, a text that is no date becomes digits that need not be one, a year outside 1900 to 2099 "
    "becomes one inside, and a weekday that contradicts the date is ignored. Check the answer with a calendar.",
)

TASK = TrainingTask(
    name="dates-transformer",
    family="seq2seq",
    steps=SCHEDULE.steps,
    metric=f"exact match, {HELD_OUT_STRINGS:,} held-out dates",
    packages=("torch", "tokenizers", "safetensors"),
    card=CARD,
    train=train,
    score=exact_match,
    example=_example,
    companions=_write_tokenizer,
)
