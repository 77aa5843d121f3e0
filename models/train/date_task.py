"""The task that the shipped date models share: their metric, how they learn, and what their cards say of the data.

Legend: B batch, S source positions, T target positions, V vocabulary.
"""

import datetime
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from torch import Tensor, nn
from torch.nn import functional as F

from attendant.tokenizer import TOKENIZER_NAME, Tokenizer
from models.checkpoints.store import Checkpoint
from models.families.rnn_seq2seq import RecurrentSeq2Seq
from models.families.seq2seq import Seq2SeqTransformer
from models.generate import pad_sources, translate_greedily
from models.train.date_data import (
    EXAMPLE_DATE,
    HELD_OUT_DATES,
    HELD_OUT_STRINGS,
    MAX_SOURCE_LENGTH,
    MAX_TARGET_LENGTH,
    held_out,
    random_batches,
    training_texts,
)
from models.train.date_formats import FORMATS, write_date
from models.train.date_tokenizer import date_tokenizer
from models.train.loop import Report, Schedule, optimise, reproducible
from models.train.task import Card, Score, TrainingTask

DateModel = Seq2SeqTransformer | RecurrentSeq2Seq
DateModelT = TypeVar("DateModelT", Seq2SeqTransformer, RecurrentSeq2Seq)


def exact_match(model: nn.Module, pairs: Sequence[tuple[str, str]] | None = None) -> Score:
    """How many texts become exactly their date by greedy decoding; the held-out ones unless others are given."""
    assert isinstance(model, DateModel)
    texts, truths = zip(*(held_out() if pairs is None else pairs), strict=True)
    tokenizer = Tokenizer(date_tokenizer())
    sources = [tokenizer.encode(text, MAX_SOURCE_LENGTH) for text in texts]
    answers = translate_greedily(model, *pad_sources(sources, model.config.pad_token), MAX_TARGET_LENGTH - 1)
    return Score.of(map(tokenizer.decode, answers), truths)


def train_on_dates(build: Callable[[], DateModelT], schedule: Schedule, seed: int, report: Report) -> DateModelT:
    """Build a model and train it; the same seed gives the same weights on the same machine."""
    with reproducible(seed):
        model = build()
        batches = random_batches(schedule.batch, seed, model.config)
        optimise(model, lambda: _loss(model, *batches()), schedule, report)
    return model


def date_task(
    *, name: str, family: str, schedule: Schedule, card: Card, train: Callable[[int, Report], nn.Module]
) -> TrainingTask:
    """A task of which only the model differs."""
    return TrainingTask(
        name=name,
        family=family,
        steps=schedule.steps,
        metric=f"exact match, {HELD_OUT_STRINGS:,} held-out dates",
        packages=("torch", "tokenizers", "safetensors"),
        card=card,
        train=train,
        score=lambda trained: exact_match(trained.model),
        example=_example,
        trained_on=training_texts,
        companions=_write_tokenizer,
    )


def date_card(*, title: str, purpose: str, schedule: Schedule, choice: str, strange_years: str) -> Card:
    """The card of a date model.

    Args:
        title: one line.
        purpose: what it is for.
        schedule: how it was trained.
        choice: how that was chosen.
        strange_years: what becomes of years outside the training's.
    """
    return Card(
        title=title,
        purpose=purpose,
        data=_DATA,
        licence="The data is generated; this repository's licence (Apache-2.0) covers the weights.",
        split=_SPLIT,
        recipe=f"AdamW, {schedule.steps:,} steps of {schedule.batch} random dates in random formats, peak rate "
        f"{schedule.peak_rate}, warm-up {schedule.warmup:.0%}, cosine to zero, weight decay {schedule.weight_decay}, "
        f"no dropout. {choice}",
        limits="It knows these formats only, English only, and it always answers, without a warning: "
        "`31 february 1999` becomes `1999-02-31`, a text that is no date becomes digits that need not be one, a year "
        f"outside 1900 to 2099 becomes {strange_years}, and a weekday that contradicts the date is ignored. Check the "
        "answer with a calendar.",
    )


_DATA = (
    f"Made by `models/train/date_formats.py`: every day from 1900-01-01 to 2099-12-31 in {len(FORMATS)} formats. "
    "Dots are day first, slashes are month first unless the year leads, hyphens between numbers are ISO; years "
    "have four digits.\n\n"
    + "\n".join(f"* `{write_date(datetime.date.fromisoformat(EXAMPLE_DATE), pattern)}`" for pattern in FORMATS)
)
_SPLIT = (
    f"Dates, not strings, are split by the SHA-256 of their ISO form: {HELD_OUT_DATES:,} of 73,049 were trained "
    f"on in no format. {EXAMPLE_DATE}, the example of `config.json`, is held out by construction. The metric takes "
    f"{HELD_OUT_STRINGS:,} of the held-out dates, each in one format, the formats in turn."
)


def _loss(model: nn.Module, source_BS: Tensor, mask_BS: Tensor, target_BT: Tensor) -> Tensor:
    logits_BTV = model(source_BS, mask_BS, target_BT[:, :-1])
    return F.cross_entropy(logits_BTV.flatten(0, 1), target_BT[:, 1:].flatten())


def _example(_trained: Checkpoint) -> dict[str, object]:
    text, answer = held_out(1)[0]
    return {"inputs": {"text": text}, "answer": answer}


def _write_tokenizer(folder: Path) -> None:
    (folder / TOKENIZER_NAME).write_text(date_tokenizer().to_str(pretty=True) + "\n", encoding="utf-8")
