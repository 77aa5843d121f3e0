"""The state of several sequences of a decoder graph: one block of memory a tensor, allocated once, a row a sequence.

A step binds a prefix of the rows, or one row, as a view of those blocks: nothing is copied. Only a row that takes the
place of another is copied, as far as it is filled.

    caches     written by the graph: keys and values [N, G, M, D], or states [N, H]
    memories   of the source, written once a row: [N, H, S, D], [N, S, C], [N, S]; S is the length that all rows are
               laid out for, long enough for the longest source among them

Legend: N slots, G key and value heads, M cache capacity, D head size, H heads or width, S source positions, C context.
"""

from collections import abc
from collections.abc import Mapping
from math import prod

import numpy as np

from attendant.signature import TensorSpec
from serving.engine.request import Sequence
from serving.runtime.base import Array, Buffer, Runner, numpy_dtype
from serving.runtime.cached_decoder import MOVING, CachedDecoder

SOURCE_BLOCK = 16
"""Sources are laid out for a multiple of so many positions, so that few of them need another layout."""


class KVCache:
    """The rows of one decoder graph.

    Attributes:
        count: N.
        capacity: M; None where the state does not grow.
        nbytes: of all rows at once.
    """

    def __init__(self, runner: Runner, count: int) -> None:
        """Allocate everything.

        Args:
            runner: the decoder graph.
            count: N.
        """
        signature = runner.signature
        self.count = count
        self._runner = runner
        self._masked = any(spec.name.endswith("mask") and spec.name not in MOVING for spec in signature.inputs)
        self._caches = {name: _Cache(runner, signature.input(name), count) for name in signature.aliases.values()}
        self._memories = {
            spec.name: _Memory(runner, spec, count, SOURCE_BLOCK if self._masked else 1)
            for spec in signature.inputs
            if spec.name not in self._caches and spec.name not in MOVING
        }
        self._decoders: dict[tuple[int, int, int], CachedDecoder] = {}
        grows = any(spec.name == "self_mask" for spec in signature.inputs)
        self.capacity = next(iter(self._caches.values())).shape[1] if grows else None
        self.nbytes = sum(
            block.nbytes
            for block in [one.block for one in self._caches.values()] + [one.block for one in self._memories.values()]
        )

    def decoder(self, begin: int, end: int, runner: Runner | None = None) -> CachedDecoder:
        """The rows begin … end − 1 as they stand, to be stepped.

        Args:
            begin: the first row.
            end: behind the last row.
            runner: another graph with the same memory, such as one that shows its attention.
        """
        runner = runner or self._runner
        key = (begin, end, id(runner))
        if key not in self._decoders:
            caches = {name: cache.rows(begin, end) for name, cache in self._caches.items()}
            memories = {name: memory.rows(begin, end) for name, memory in self._memories.items()}
            self._decoders[key] = CachedDecoder.over(runner, caches, memories)
        return self._decoders[key]

    def accepts(self, memories: Mapping[str, Array], occupied: int) -> bool:
        """Whether a source can stand beside the rows that are occupied.

        Without a mask, a source shorter or longer than theirs would be read beyond its end, or theirs would.
        """
        if self._masked or occupied == 0:
            return True
        return all(memory.length in (None, memory.length_of(memories[name])) for name, memory in self._memories.items())

    def place(self, row: int, memories: Mapping[str, Array], occupied: int) -> None:
        """Give a row its source and its first state.

        Args:
            row: which.
            memories: what an encoder graph returned for it, and the source's mask, without the batch axis.
            occupied: how many rows hold a sequence; with none, the layout is made for this source alone.
        """
        changed = [memory.place(row, memories[name], occupied) for name, memory in self._memories.items()]
        if any(changed):
            self._decoders.clear()  # they show the old layout
        for name, cache in self._caches.items():
            first = memories.get(name.removesuffix("_in"))
            if first is not None:
                cache.rows(row, row + 1).write(first[None])

    def clear(self, row: int) -> None:
        """Fill the caches of a row with zeros.

        A mask does not keep a NaN out: 0 times NaN is NaN. Whoever gets the row next would read it.
        """
        for cache in self._caches.values():
            cache.rows(row, row + 1).write(np.zeros((1, *cache.shape), cache.dtype))

    def copy(self, sources: abc.Sequence[int], targets: abc.Sequence[int], positions: int) -> None:
        """Copy rows to others, all at once.

        Args:
            sources: the rows that are read.
            targets: the rows that are written, in the same order.
            positions: as far as the caches of the sources are filled.
        """
        for cache in self._caches.values():
            cache.block.copy_rows(sources, targets, None if self.capacity is None else positions)
        for memory in self._memories.values():
            memory.copy_rows(sources, targets)

    def permute(self, rows: abc.Sequence[int], parents: abc.Sequence[int], positions: int) -> None:
        """Let rows of one source go on from others of it: only the caches are exchanged.

        Args:
            rows: that go on.
            parents: the row that each goes on from.
            positions: as far as these are filled.
        """
        moved = [(parent, row) for parent, row in zip(parents, rows, strict=True) if parent != row]
        if moved:
            sources, targets = zip(*moved, strict=True)
            for cache in self._caches.values():
                cache.block.copy_rows(sources, targets, None if self.capacity is None else positions)

    def cached(self, row: int, begin: int, end: int) -> list[Array]:
        """What the caches of one row hold of the positions begin … end − 1, as copies ``[G, end − begin, D]``."""
        return [cache.read(row, begin, end) for cache in self._caches.values()]

    def restore(self, row: int, begin: int, blocks: abc.Sequence[Array]) -> None:
        """The inverse of :meth:`cached`."""
        for cache, block in zip(self._caches.values(), blocks, strict=True):
            cache.write(row, begin, block)


class _Cache:
    def __init__(self, runner: Runner, spec: TensorSpec, count: int) -> None:
        self.block = runner.allocate(spec.name, {"batch": count})
        self.shape, self.dtype = spec.shape({"batch": count})[1:], numpy_dtype(spec.dtype)

    def rows(self, begin: int, end: int) -> Buffer:
        return _rows(self.block, self.shape, begin, end)

    def read(self, row: int, begin: int, end: int) -> Array:
        # Head by head: on a device, a view of the whole row would be a copy of it.
        return np.stack([part.numpy() for part in self._parts(row, begin, end)])

    def write(self, row: int, begin: int, block_GPD: Array) -> None:
        parts = self._parts(row, begin, begin + block_GPD.shape[1])
        for part, block_PD in zip(parts, block_GPD, strict=True):
            part.write(block_PD)

    def _parts(self, row: int, begin: int, end: int) -> list[Buffer]:
        heads, capacity, size = self.shape
        offsets = [((row * heads + head) * capacity + begin) * size for head in range(heads)]
        return [self.block.part(offset, (end - begin, size)) for offset in offsets]


class _Memory:
    def __init__(self, runner: Runner, spec: TensorSpec, count: int, multiple: int) -> None:
        varying = [(number, axis) for number, axis in enumerate(spec.axes[1:]) if isinstance(axis, str)]
        self._axis = varying[0][0] if varying else None
        self._longest = runner.signature.axes[varying[0][1]].max if varying else 0
        sizes = {"batch": count} | ({} if self._axis is None else {str(spec.axes[self._axis + 1]): self._longest})
        self.block = runner.allocate(spec.name, sizes)
        self.length = None if self._axis is None else 0
        self._multiple = multiple
        self._shape = spec.shape(sizes)[1:]

    def length_of(self, memory: Array) -> int | None:
        return None if self._axis is None else memory.shape[self._axis]

    def rows(self, begin: int, end: int) -> Buffer:
        return _rows(self.block, self._layout(), begin, end)

    def place(self, row: int, memory: Array, occupied: int) -> bool:
        changed = self._axis is not None and self._make_room(memory.shape[self._axis], occupied)
        self.rows(row, row + 1).write(_extend(memory, self._layout())[None])
        return changed

    def copy_rows(self, sources: abc.Sequence[int], targets: abc.Sequence[int]) -> None:
        count = max(*sources, *targets) + 1
        self.rows(0, count).copy_rows(sources, targets)

    def _make_room(self, length: int, occupied: int) -> bool:
        assert self.length is not None
        needed = min(-(-length // self._multiple) * self._multiple, self._longest)
        if needed == self.length or (occupied and needed < self.length):
            return False
        held = [self.rows(row, row + 1).numpy()[0].copy() for row in range(occupied)]
        self.length = needed
        for row, memory in enumerate(held):
            self.rows(row, row + 1).write(_extend(memory, self._layout())[None])
        return True

    def _layout(self) -> tuple[int, ...]:
        shape = list(self._shape)
        if self._axis is not None and self.length is not None:
            shape[self._axis] = self.length
        return tuple(shape)


def _rows(block: Buffer, shape: tuple[int, ...], begin: int, end: int) -> Buffer:
    return block.part(begin * prod(shape), (end - begin, *shape))


def _extend(memory: Array, shape: tuple[int, ...]) -> Array:
    if memory.shape == shape:
        return memory
    extended: Array = np.zeros(shape, dtype=memory.dtype)
    extended[tuple(slice(size) for size in memory.shape)] = memory
    return extended


class Rows:
    """The sequences of an engine, by row.

    Attributes:
        all: every sequence, in the order of the rows.
        decoding: how many of them, from the first on, are decoded token by token.
    """

    def __init__(self, cache: KVCache) -> None:
        self._cache = cache
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
            self._cache.copy(rows, rows[::-1], max(sequence.cached, other.cached))
            self._place(other, rows[0])
            self._place(sequence, rows[1])
        self.decoding += 1

    def fork(self, sequence: Sequence, others: list[Sequence]) -> None:
        """Let others go on from where a sequence stands, each in a row of its own."""
        for other in others:
            self.append(other)
            other.cached = sequence.cached
        if others:
            targets = [other.row for other in others]
            self._cache.copy([sequence.row] * len(others), targets, sequence.cached)

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
        self._cache.clear(sequence.row)

    def _fill(self, hole: int, last: int) -> int:
        if hole != last:
            moved = self.all[last]
            self._cache.copy((last,), (hole,), moved.cached)
            self._place(moved, hole)
        return last

    def _place(self, sequence: Sequence, row: int) -> None:
        self.all[row] = sequence
        sequence.row = row
