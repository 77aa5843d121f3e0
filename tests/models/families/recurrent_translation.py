"""Tiny recurrent translators of every kind, and a batch with padding in its sources."""

import dataclasses
import itertools

import torch

from models.families.rnn_seq2seq import RecurrentSeq2Seq, RecurrentSeq2SeqConfig
from models.generate import pad_sources
from tests.models.agreement import randomised
from tests.models.families.translation import Batch

CONFIG = RecurrentSeq2SeqConfig(
    source_vocabulary_size=19,
    target_vocabulary_size=17,
    embedding_width=5,
    hidden_width=6,
    alignment_width=4,
    maxout_width=3,
    max_source_length=10,
    max_target_length=14,
)
SOURCE_LENGTHS = (7, 4, 1)
TARGET_LENGTH = 5
KINDS = {
    f"{cell}, {'both ways' if both_ways else 'one way'}, attention {attention}": {
        "cell": cell,
        "bidirectional": both_ways,
        "attention": attention,
        "alignment_width": 4 if attention == "additive" else None,
        "maxout_width": 3 if both_ways else None,
    }
    for cell, both_ways, attention in itertools.product(("rnn", "lstm", "gru"), (False, True), ("none", "additive"))
}


def recurrent_translator(dtype=torch.float64, **changes):
    """A model of the tiny configuration with random weights."""
    torch.manual_seed(0)
    return randomised(RecurrentSeq2Seq(dataclasses.replace(CONFIG, **changes)), dtype)


def recurrent_batch(seed=1):
    """Sources of three lengths and targets that begin with the start token."""
    generator = torch.Generator().manual_seed(seed)
    words = [torch.randint(3, CONFIG.source_vocabulary_size, (n,), generator=generator) for n in SOURCE_LENGTHS]
    source_ids, source_mask = pad_sources([row.tolist() for row in words], CONFIG.pad_token)
    target_ids = torch.randint(3, CONFIG.target_vocabulary_size, (3, TARGET_LENGTH), generator=generator)
    target_ids[:, 0] = CONFIG.start_token
    return Batch(source_ids, source_mask, target_ids)
