"""Which sequence holds which slot: those that are decoded token by token in front, those with a prompt to read behind.

Both stand without gaps, so that a step binds a prefix of the slots. A sequence changes its row only where another ends
or a prompt is done.
"""

from __future__ import annotations

from serving.engine.kv_cache import KVCache
from serving.engine.request import Sequence


class Rows:
    """The sequences of an engine, by row.

    Attributes:
        all: every sequence, in the order of the rows.
        decoding: how many of them, from the first on, are decoded token by token.
    """

    def __init__(self, slots: KVCache) -> None:
        self._slots = slots
        self.all: list[Sequence] = []
        self.decoding = 0

    def __len__(self) -> int:
        return len(self.all)

    def append(self, sequence: Sequence) -> None:
        """Give a sequence the first free row, behind all others."""
        sequence.row = len(self.all)
        self.all.append(sequence)

    def promote(self, sequence: Sequence) -> None:
        """Its prompt is done: let a sequence stand among those that are decoded."""
        if sequence.row < self.decoding:
            return
        other = self.all[self.decoding]
        if other is not sequence:
            rows = (sequence.row, other.row)
            self._slots.copy(rows, rows[::-1], max(sequence.cached, other.cached))
            self._seat(other, rows[0])
            self._seat(sequence, rows[1])
        self.decoding += 1

    def fork(self, sequence: Sequence, others: list[Sequence]) -> None:
        """Let others go on from where a sequence stands, each in a row of its own."""
        for other in others:
            self.append(other)
            other.cached = sequence.cached
        if others:
            targets = [other.row for other in others]
            self._slots.copy([sequence.row] * len(others), targets, sequence.cached)

    def remove(self, sequence: Sequence) -> None:
        """Free a row; what stood last takes its place."""
        hole = sequence.row
        if hole < self.decoding:
            self.decoding -= 1
            hole = self._fill(hole, self.decoding)
        self._fill(hole, len(self.all) - 1)
        self.all.pop()
        sequence.row = -1

    def clear(self, sequence: Sequence) -> None:
        """Let nothing be left of what a sequence has computed."""
        self._slots.clear(sequence.row)

    def _fill(self, hole: int, last: int) -> int:
        if hole != last:
            moved = self.all[last]
            self._slots.copy((last,), (hole,), moved.cached)
            self._seat(moved, hole)
        return last

    def _seat(self, sequence: Sequence, row: int) -> None:
        self.all[row] = sequence
        sequence.row = row
