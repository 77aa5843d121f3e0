"""Tiny translators and a batch with padding in its sources, which the tests of the Transformer share."""

import dataclasses
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from models.families.encoder_decoder import CrossDecoder
from models.families.seq2seq import Seq2SeqConfig, Seq2SeqTransformer
from models.generate import pad_sources
from tests.models.agreement import randomised

CONFIG = Seq2SeqConfig(
    vocabulary_size=19, layers=2, width=16, heads=2, mlp_width=24, max_source_length=10, max_target_length=14
)
MARIAN = {
    "activation": "silu",
    "positions": "concatenated",
    "logits_bias": True,
    "pad_token": 18,
    "start_token": 18,
    "end_token": 0,
}
BART = {
    "activation": "gelu",
    "positions": "learned",
    "scaled_embedding": False,
    "embedding_norm": True,
    "logits_bias": True,
    "pad_token": 1,
    "start_token": 2,
}
VARIANTS = {
    "the paper's": {},
    "pre-norm": {"norm_order": "pre"},
    "Marian": MARIAN,
    "Marian, untied": {**MARIAN, "tied": False, "decoder_layers": 1},
    "BART": BART,
    "BART, untied": {**BART, "tied": False},
    "mBART": {**BART, "norm_order": "pre", "scaled_embedding": True, "decoder_layers": 3},
}
SOURCE_LENGTHS = (7, 4, 1)
TARGET_LENGTH = 6


@dataclass(frozen=True)
class Batch:
    """What goes into one teacher-forced pass."""

    source_ids: Tensor
    source_mask: Tensor
    target_ids: Tensor

    @property
    def source(self) -> tuple[Tensor, Tensor]:
        """What is encoded."""
        return self.source_ids, self.source_mask

    def row(self, number: int) -> "Batch":
        """One row as a batch of its own, without its padding."""
        length = int(self.source_mask[number].sum())
        return Batch(self.source_ids[[number], :length], self.source_mask[[number], :length], self.target_ids[[number]])

    def replaced(self, **parts: Tensor) -> "Batch":
        """The same batch with other parts."""
        return dataclasses.replace(self, **parts)


def translator(dtype: torch.dtype = torch.float64, **changes: object) -> Seq2SeqTransformer:
    """A model of the tiny configuration with random weights."""
    torch.manual_seed(0)
    model = Seq2SeqTransformer(dataclasses.replace(CONFIG, **changes))
    if model.logits_bias is not None:
        model.logits_bias.normal_()
    return randomised(model, dtype)


def random_batch(seed: int = 1, target_length: int = TARGET_LENGTH) -> Batch:
    """Sources of three lengths and targets that begin with the start token."""
    generator = torch.Generator().manual_seed(seed)
    words = [torch.randint(3, CONFIG.vocabulary_size, (length,), generator=generator) for length in SOURCE_LENGTHS]
    source_ids, source_mask = pad_sources([row.tolist() for row in words], CONFIG.pad_token)
    target_ids = torch.randint(3, CONFIG.vocabulary_size, (len(words), target_length), generator=generator)
    target_ids[:, 0] = CONFIG.start_token
    return Batch(source_ids, source_mask, target_ids)


def logits_of(model: CrossDecoder, batch: Any) -> Tensor:
    """Every position's scores by the full forward pass; the batch is one of texts or of images."""
    return model(*batch.source, batch.target_ids)
