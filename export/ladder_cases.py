"""The questions that both sides of a comparison are asked: batch sizes, lengths, padding, splits of a decode.

Legend: B batch, S source positions, T target positions.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from models.families.seq2seq import Seq2SeqConfig
from models.families.vit import ViTConfig
from serving.runtime.base import Array

BATCHES = (1, 2, 5)
# Every composition of a target this long is tried: 2^(6-1) splits.
EXHAUSTIVE_LENGTH = 6
# Beyond this capacity, two-way splits are spread over it instead of tried one by one.
MOST_SPLITS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageCase:
    """Random images ``[B, C, side, side]``."""

    name: str
    pixels: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceCase:
    """Random sources, int64 ``[B, S]``, with rows of different lengths behind a bool mask ``[B, S]``."""

    name: str
    ids: Array
    mask: Array

    def feeds(self) -> dict[str, Array]:
        """The encoder graph's inputs."""
        return {"source_ids": self.ids, "source_mask": self.mask}


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeCase:
    """Random targets, int64 ``[B, T]``, decoded in chunks; each chunk has a size and each row's first position."""

    name: str
    source: SourceCase
    target: Array
    chunks: tuple[tuple[int, Array], ...]


def image_cases(config: ViTConfig) -> Iterator[ImageCase]:
    """Batches of several sizes."""
    rng = np.random.default_rng(0)
    for batch in (*BATCHES, 32):
        shape = (batch, config.channels, config.image_size, config.image_size)
        yield ImageCase(name=f"batch {batch}", pixels=rng.standard_normal(shape, dtype=np.float32))


def source_cases(config: Seq2SeqConfig) -> Iterator[SourceCase]:
    """Every batch size with the shortest, a middling and the longest source."""
    longest = config.max_source_length
    for batch, length in itertools.product(BATCHES, sorted({1, (longest + 1) // 2, longest})):
        yield _source(config, batch, length)


def decode_cases(config: Seq2SeqConfig) -> Iterator[DecodeCase]:
    """The whole capacity at once and, where it is small, token by token for every source; every split of one."""
    capacity = config.max_target_length
    for source in source_cases(config):
        yield _decode(config, source, (capacity,))
        if capacity <= MOST_SPLITS:
            yield _decode(config, source, (1,) * capacity)
    source = _source(config, 2, (config.max_source_length + 1) // 2)
    splits = ((1,) * capacity, *two_way(capacity), *compositions(capacity))
    yield from (_decode(config, source, split) for split in splits)
    yield _staggered(config, source)


def two_way(length: int) -> list[tuple[int, ...]]:
    """Every split of a length in two, or ``MOST_SPLITS`` of them, evenly spread."""
    cuts = range(1, length)
    chosen = cuts if len(cuts) <= MOST_SPLITS else np.linspace(1, length - 1, MOST_SPLITS, dtype=int)
    return [(int(cut), length - int(cut)) for cut in chosen]


def compositions(length: int) -> list[tuple[int, ...]]:
    """Every way to write ``min(length, EXHAUSTIVE_LENGTH)`` as an ordered sum."""
    total = min(length, EXHAUSTIVE_LENGTH)
    cuts = ((0, *(i for i in range(1, total) if bits >> (i - 1) & 1), total) for bits in range(2 ** (total - 1)))
    return [tuple(b - a for a, b in itertools.pairwise(cut)) for cut in cuts]


def _source(config: Seq2SeqConfig, batch: int, length: int) -> SourceCase:
    rng = np.random.default_rng([batch, length])
    lengths = np.maximum(1, length - np.arange(batch) * max(1, length // 4))
    return SourceCase(
        name=f"batch {batch}, source {length}",
        ids=rng.integers(0, config.vocabulary_size, (batch, length)),
        mask=np.arange(length)[None] < lengths[:, None],
    )


def _decode(config: Seq2SeqConfig, source: SourceCase, split: tuple[int, ...]) -> DecodeCase:
    begins = itertools.accumulate(split[:-1], initial=0)
    rows = len(source.ids)
    parts = "+".join(map(str, split)) if len(split) <= 6 else f"{len(split)} single steps"
    return DecodeCase(
        name=f"{source.name}, target {parts}",
        source=source,
        target=_target(config, rows, sum(split)),
        chunks=tuple((size, np.full(rows, begin)) for size, begin in zip(split, begins, strict=True)),
    )


def _staggered(config: Seq2SeqConfig, source: SourceCase) -> DecodeCase:
    # Row b goes b positions back after the prefill and writes over its own entries, so the rows' lengths differ.
    rows, length = len(source.ids), config.max_target_length
    half, back = length // 2, np.arange(len(source.ids))
    rest = (length - half, half - back), (rows - 1, np.full(rows, length - rows + 1))
    return DecodeCase(
        name=f"{source.name}, rows at different positions",
        source=source,
        target=_target(config, rows, length),
        chunks=((half, np.zeros_like(back)), *rest),
    )


def _target(config: Seq2SeqConfig, rows: int, length: int) -> Array:
    tokens: Array = np.random.default_rng(length).integers(0, config.vocabulary_size, (rows, length))
    return tokens
