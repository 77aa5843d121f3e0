"""``dates-transformer``: dates to ISO 8601 by a Transformer."""

from models.families.seq2seq import Seq2SeqConfig, Seq2SeqTransformer
from models.train.date_data import MAX_SOURCE_LENGTH, MAX_TARGET_LENGTH, VOCABULARY_SIZE
from models.train.date_task import date_card, date_task, train_on_dates
from models.train.loop import Report, Schedule

CONFIG = Seq2SeqConfig(
    vocabulary_size=VOCABULARY_SIZE,
    layers=2,
    width=64,
    heads=4,
    mlp_width=256,
    max_source_length=MAX_SOURCE_LENGTH,
    max_target_length=MAX_TARGET_LENGTH,
    dropout=0.0,
)
SCHEDULE = Schedule(steps=1000, batch=128, peak_rate=3e-3, weight_decay=0.01)


def train(seed: int, report: Report, schedule: Schedule = SCHEDULE) -> Seq2SeqTransformer:
    """Train from random weights; the same seed gives the same weights on the same machine."""
    return train_on_dates(lambda: Seq2SeqTransformer(CONFIG), schedule, seed, report)


CARD = date_card(
    title="Dates to ISO 8601, a character-level Transformer",
    purpose="A small encoder-decoder that a laptop trains in about a minute: the demonstration of translation in "
    "this repository (`3rd of march 1997` → `1997-03-03`). Not meant for anything else; a parser does the task better.",
    schedule=SCHEDULE,
    choice="Chosen among four recipes on 1,000 of the training dates; the held-out dates chose nothing.",
    strange_years="one inside",
)
TASK = date_task(name="dates-transformer", family="seq2seq", schedule=SCHEDULE, card=CARD, train=train)
