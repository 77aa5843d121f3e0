"""``dates-gru``: dates to ISO 8601 by a bidirectional GRU with additive attention, the architecture of RNNsearch."""

from models.families.rnn_seq2seq import RecurrentSeq2Seq, RecurrentSeq2SeqConfig
from models.train.date_data import MAX_SOURCE_LENGTH, MAX_TARGET_LENGTH, VOCABULARY_SIZE
from models.train.date_task import date_card, date_task, train_on_dates
from models.train.loop import Report, Schedule

CONFIG = RecurrentSeq2SeqConfig(
    source_vocabulary_size=VOCABULARY_SIZE,
    target_vocabulary_size=VOCABULARY_SIZE,
    cell="gru",
    bidirectional=True,
    attention="additive",
    embedding_width=32,
    hidden_width=64,
    alignment_width=64,
    maxout_width=32,
    max_source_length=MAX_SOURCE_LENGTH,
    max_target_length=MAX_TARGET_LENGTH,
    dropout=0.0,
)
SCHEDULE = Schedule(steps=600, batch=128, peak_rate=5e-3, weight_decay=0.01)


def train(seed: int, report: Report, schedule: Schedule = SCHEDULE) -> RecurrentSeq2Seq:
    """Train from random weights; the same seed gives the same weights on the same machine."""
    return train_on_dates(lambda: RecurrentSeq2Seq(CONFIG), schedule, seed, report)


CARD = date_card(
    title="Dates to ISO 8601, a character-level GRU with additive attention",
    purpose="A small recurrent encoder-decoder that a laptop trains in about a minute: beside `dates-transformer`, "
    "which learns the same task, it shows what came before (`3rd of march 1997` → `1997-03-03`), and its attention "
    "shows where it looks while it writes. Not meant for anything else; a parser does the task better.",
    schedule=SCHEDULE,
    choice="Chosen among four recipes on 1,000 of the training dates; the held-out dates chose nothing.",
    strange_years="another one or digits that are no date",
)
TASK = date_task(name="dates-gru", family="rnn_seq2seq", schedule=SCHEDULE, card=CARD, train=train)
