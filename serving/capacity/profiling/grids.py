"""Tables of what the runs of a model's graphs take, and how far points between are off.

Legend: B rows, T new positions.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from itertools import pairwise

import numpy as np

from attendant.tensor_names import PREFILL
from serving.capacity.profiling.inputs import longest_input, request_of_length
from serving.capacity.profiling.timing import Call, measure_medians
from serving.capacity.table import Axis, TimeTable
from serving.engine.kv_cache import KVCache
from serving.engine.scheduler import encode_sources
from serving.engine.text_generation_model import TextGenerationModel
from serving.runtime.base import Runner

Run = Callable[[int, int], object]
"""Of a size and a length."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredTable:
    """A table, and its largest relative error at points between those that it was made of."""

    table: TimeTable
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
        self._source = cache(lambda length: request_of_length(model, length, 1, rng).source)
        if self._encoder is None:
            return
        memory = encode_sources(self._encoder, [self._source(longest_input(self._model))])[0]
        for row in range(slots):
            self._slots.place(row, memory, row)

    def decode(self) -> MeasuredTable:
        """Runs that give every row one token."""
        lengths = (1,) if self.capacity is None else _geometric(8, self.capacity, 5)
        return _measure(self._decode, _powers_of_two(1, self._slots.count), lengths, "decode")

    def prompt(self, most: int) -> MeasuredTable | None:
        """Runs that read prompts, of up to so many positions; None where there are none."""
        if self._encoder is not None or self.capacity is None:
            return None
        most = min(most, self.capacity * self._slots.count)
        return _measure(self._read, _geometric(2, most, 6), _geometric(8, self.capacity, 5), "prompt")

    def encoder(self) -> MeasuredTable | None:
        """Runs of the encoder; None without one."""
        if self._encoder is None:
            return None
        lengths = _powers_of_two(1, longest_input(self._model))
        return _measure(self._encode, _powers_of_two(1, self._slots.count), lengths, "encoder")

    def _decode(self, rows: int, attended: int) -> None:
        self._step(rows, 1, attended - 1)

    def _read(self, positions: int, attended: int) -> None:
        rows = min(max(1, positions // attended), self._slots.count)
        width = -(-positions // rows)
        prefill = self._model.runners.get(PREFILL)
        self._step(rows, width, max(0, min(attended - width, (self.capacity or 0) - width)), prefill)

    def _step(self, rows: int, width: int, start: int, runner: Runner | None = None) -> None:
        tokens_BT = np.zeros((rows, width), dtype=np.int64)
        start_B, scored_B1 = np.full(rows, start), np.full((rows, 1), width - 1)
        self._slots.decoder(0, rows, runner).step(tokens_BT, start_B, scored_B1)

    def _encode(self, rows: int, length: int) -> None:
        assert self._encoder is not None
        encode_sources(self._encoder, [self._source(length)] * rows)


def _measure(run: Run, sizes: Axis, lengths: Axis, title: str) -> MeasuredTable:
    points = [(size, length) for size in sizes for length in lengths]
    between = list(zip(_midpoints(sizes), _midpoints(lengths), strict=False))
    calls: list[Call] = [partial(run, *point) for point in (*points, *between)]
    taken = measure_medians(calls, title)
    rows = np.array(taken[: len(points)]).reshape(len(sizes), len(lengths))
    table = TimeTable(sizes=sizes, lengths=lengths, seconds=tuple(map(tuple, rows.tolist())))
    errors = [abs(table.at(*point) / seconds - 1) for point, seconds in zip(between, taken[len(points) :], strict=True)]
    return MeasuredTable(table=table, error=max(errors, default=0.0))


def _midpoints(axis: Axis) -> list[int]:
    return [round((before + after) / 2) for before, after in pairwise(axis)] or list(axis)


def _powers_of_two(first: int, last: int) -> Axis:
    return tuple(
        dict.fromkeys([*(first << power for power in range(last.bit_length()) if first << power < last), last])
    )


def _geometric(first: int, last: int, count: int) -> Axis:
    return tuple(dict.fromkeys(int(value) for value in np.rint(np.geomspace(min(first, last), last, count))))
