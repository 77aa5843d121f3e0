"""Tables of what the runs of a model's graphs take, and how far points between are off.

Legend: B rows, T new positions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from itertools import pairwise

import numpy as np

from serving.capacity.profiling.prompts import exactly, longest_question
from serving.capacity.profiling.timing import Call, medians
from serving.capacity.table import Axis, Table
from serving.engine.kv_cache import KVCache
from serving.engine.scheduler import encode_sources
from serving.engine.text_generation_model import TextGenerationModel

Run = Callable[[int, int], object]
"""Of a size and a length."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A table, and its largest relative error at points between those that it was made of."""

    table: Table
    error: float


class Grids:
    """What can be run of a model."""

    def __init__(self, model: TextGenerationModel, slots: int) -> None:
        """Allocate slots beside the engine's.

        Args:
            model: that is measured.
            slots: the most rows of a run.
        """
        self._model, self._slots = model, KVCache(model.runners["decoder"], slots)
        self._encoder = model.runners.get("encoder")
        rng = np.random.default_rng(0)
        self.capacity = self._slots.capacity
        self._source = cache(lambda length: exactly(model, length, 1, rng).source)
        self._place(slots)

    def decode(self) -> Measured:
        """Runs that give every row one token."""
        lengths = (1,) if self.capacity is None else _spread(8, self.capacity, 5)
        return _measured(self._decode, _doubled(1, self._slots.count), lengths, "decode")

    def prompt(self, most: int) -> Measured | None:
        """Runs that read prompts, of up to so many positions; None where there are none."""
        if self._encoder is not None or self.capacity is None:
            return None
        most = min(most, self.capacity * self._slots.count)
        return _measured(self._read, _spread(2, most, 6), _spread(8, self.capacity, 5), "prompt")

    def encoder(self) -> Measured | None:
        """Runs of the encoder; None without one."""
        if self._encoder is None:
            return None
        lengths = _doubled(1, longest_question(self._model))
        return _measured(self._encode, _doubled(1, self._slots.count), lengths, "encoder")

    def _place(self, rows: int) -> None:
        if self._encoder is None:
            return
        memory = encode_sources(self._encoder, [self._source(longest_question(self._model))])[0]
        for row in range(rows):
            self._slots.place(row, memory, row)

    def _decode(self, rows: int, attended: int) -> None:
        self._step(rows, 1, attended - 1)

    def _read(self, positions: int, attended: int) -> None:
        rows = min(max(1, positions // attended), self._slots.count)
        width = -(-positions // rows)
        self._step(rows, width, max(0, min(attended - width, (self.capacity or 0) - width)))

    def _step(self, rows: int, width: int, start: int) -> None:
        tokens_BT = np.zeros((rows, width), dtype=np.int64)
        start_B, scored_B1 = np.full(rows, start), np.full((rows, 1), width - 1)
        self._slots.decoder(0, rows).step(tokens_BT, start_B, scored_B1)

    def _encode(self, rows: int, length: int) -> None:
        assert self._encoder is not None
        encode_sources(self._encoder, [self._source(length)] * rows)


def _measured(run: Run, sizes: Axis, lengths: Axis, title: str) -> Measured:
    points = [(size, length) for size in sizes for length in lengths]
    between = list(zip(_middles(sizes), _middles(lengths), strict=False))
    calls: list[Call] = [partial(run, *point) for point in (*points, *between)]
    taken = medians(calls, title)
    rows = np.array(taken[: len(points)]).reshape(len(sizes), len(lengths))
    table = Table(sizes=sizes, lengths=lengths, seconds=tuple(map(tuple, rows.tolist())))
    errors = [abs(table.at(*point) / seconds - 1) for point, seconds in zip(between, taken[len(points) :], strict=True)]
    return Measured(table=table, error=max(errors, default=0.0))


def _middles(axis: Axis) -> list[int]:
    return [round((before + after) / 2) for before, after in pairwise(axis)] or list(axis)


def _doubled(first: int, last: int) -> Axis:
    return tuple(
        dict.fromkeys([*(first << power for power in range(last.bit_length()) if first << power < last), last])
    )


def _spread(first: int, last: int, count: int) -> Axis:
    return tuple(dict.fromkeys(int(value) for value in np.rint(np.geomspace(min(first, last), last, count))))
