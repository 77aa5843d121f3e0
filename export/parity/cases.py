"""The questions that both sides of a comparison are asked: batch sizes, lengths, padding, splits of a decode.

Legend: B batch, S source positions, T target positions.
"""

import dataclasses
import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from attendant.signature import Axis, TensorSpec
from attendant.tensor_names import PIXELS
from models.task_graph import TaskGraph
from serving.runtime.base import Array

BATCHES = (1, 2, 5)
# Every composition of a target this long is tried: 2^(6-1) splits.
EXHAUSTIVE_LENGTH = 6
# Beyond this capacity, two-way splits are spread over it instead of tried one by one.
MOST_SPLITS = 32
# Longer sequences are not decoded here: the float64 reference would take hours.
LONGEST = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """How random floats are spread: those of a graph that was calibrated as those that it was calibrated with.

    Attributes:
        mean: of all.
        deviation: of one from the mean.
        smallest: smaller ones become it.
        largest: larger ones become it.
    """

    mean: float = 0.0
    deviation: float = 1.0
    smallest: float = -math.inf
    largest: float = math.inf

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        """Random float32."""
        normal = rng.standard_normal(shape, dtype=np.float32)
        numbers: Array = np.clip(normal * self.deviation + self.mean, self.smallest, self.largest).astype(np.float32)
        return numbers


NORMAL = Spread()
Spreads = Mapping[str, Spread]
"""Input → how its floats are spread; :data:`NORMAL` where it is not named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageCase:
    """Random images ``[B, C, height, width]``."""

    name: str
    pixels: Array

    @property
    def feeds(self) -> dict[str, Array]:
        """What an encoder graph is fed, in the order of its inputs."""
        return {PIXELS: self.pixels}


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceCase:
    """Random sources, int64 ``[B, S]``, with rows of different lengths behind a bool mask ``[B, S]``."""

    name: str
    ids: Array
    mask: Array

    @property
    def feeds(self) -> dict[str, Array]:
        """What an encoder graph is fed, in the order of its inputs."""
        return {"source_ids": self.ids, "source_mask": self.mask}


Source = SourceCase | ImageCase


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeCase:
    """Random targets, int64 ``[B, T]``, decoded in chunks; each chunk has a size and each row's first position.

    A language model's targets have no source.
    """

    name: str
    source: Source | None
    target: Array
    chunks: tuple[tuple[int, Array], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoding:
    """What limits the targets of a model.

    Attributes:
        vocabulary: number of token ids.
        capacity: longest target.
        single_steps: whether the graph takes one token a call, as an RNN does.
    """

    vocabulary: int
    capacity: int
    single_steps: bool = False


def image_cases(pixels: TensorSpec, axes: Mapping[str, Axis], spread: Spread = NORMAL) -> Iterator[ImageCase]:
    """Batches of several sizes, and images of several where they may differ; bytes where the graph takes bytes.

    Args:
        pixels: the input.
        axes: varying axis → its sizes.
        spread: of the pixels.
    """
    sides = {symbol: axes[symbol] for symbol in pixels.axes[1:] if isinstance(symbol, str)}
    for batch in (*BATCHES, 32):
        yield _image_case(pixels, batch, {symbol: axis.opt for symbol, axis in sides.items()}, spread)
    for sizes in _other_sizes(sides):
        yield _image_case(pixels, 2, sizes, spread)


def _other_sizes(sides: Mapping[str, Axis]) -> Iterator[dict[str, int]]:
    if sides:
        yield {symbol: axis.min for symbol, axis in sides.items()}
    for short in sides:
        yield {symbol: axis.min + 1 if symbol == short else axis.max for symbol, axis in sides.items()}


def _image_case(pixels: TensorSpec, batch: int, sides: Mapping[str, int], spread: Spread) -> ImageCase:
    rng = np.random.default_rng([batch, *sides.values()])
    shape = pixels.shape({"batch": batch, **sides})
    images = spread.draw(rng, shape)
    if pixels.dtype == "uint8":
        images = rng.integers(256, size=shape, dtype=np.uint8)
    words = [f"batch {batch}", *(f"{symbol} {size}" for symbol, size in sides.items())]
    return ImageCase(name=", ".join(words), pixels=images)


def tensor_cases(graph: TaskGraph, spreads: Spreads | None = None) -> Iterator[tuple[str, dict[str, Array]]]:
    """Random tensors for any graph: several batch sizes, each varying axis short, middling and as long as it gets.

    A bool input is true at the beginning of each row and false behind it, as a padding mask is.

    Args:
        graph: any.
        spreads: of its floats.

    Yields:
        The case's name, and input name → array.
    """
    symbols = sorted(graph.largest)
    for batch, share in itertools.product(BATCHES, (0.0, 0.5, 1.0) if symbols else (1.0,)):
        sizes = {"batch": batch, **{symbol: max(1, round(share * graph.largest[symbol])) for symbol in symbols}}
        rng = np.random.default_rng([batch, int(100 * share)])
        name = ", ".join(f"{symbol} {size}" for symbol, size in sizes.items())
        yield (
            name,
            {
                spec.name: _tensor(
                    rng, spec, sizes, graph.below, (spreads or {}).get(spec.name) or _spread(graph, spec)
                )
                for spec in graph.signature.inputs
            },
        )


def _spread(graph: TaskGraph, spec: TensorSpec) -> Spread:
    if spec.name not in graph.within:
        return NORMAL
    least, most = graph.within[spec.name]
    return Spread(mean=(least + most) / 2, deviation=(most - least) / 4, smallest=least, largest=most)


def _tensor(
    rng: np.random.Generator, spec: TensorSpec, sizes: dict[str, int], below: dict[str, int], spread: Spread
) -> Array:
    shape = spec.shape(sizes)
    if spec.dtype == "bool":
        ends = np.maximum(1, shape[-1] - np.arange(shape[0]))
        return np.broadcast_to(np.arange(shape[-1]) < ends.reshape(-1, *(1,) * (len(shape) - 1)), shape).copy()
    if spec.name in below:
        return rng.integers(0, below[spec.name], shape).astype(spec.dtype)
    return spread.draw(rng, shape).astype(spec.dtype)


def source_cases(vocabulary: int, longest: int) -> Iterator[SourceCase]:
    """Every batch size with the shortest, a middling and the longest source."""
    longest = min(longest, LONGEST)
    for batch, length in itertools.product(BATCHES, sorted({1, (longest + 1) // 2, longest})):
        yield _source_case(vocabulary, batch, length)


def translation_cases(decoding: Decoding, source_vocabulary: int, longest_source: int) -> Iterator[DecodeCase]:
    """Whole targets for every source, and every split for one."""
    for source in source_cases(source_vocabulary, longest_source):
        yield from _whole_cases(decoding, source, len(source.ids))
    middling = _source_case(source_vocabulary, 2, (min(longest_source, LONGEST) + 1) // 2)
    yield from _split_cases(decoding, middling, len(middling.ids))


def caption_cases(
    decoding: Decoding, pixels: TensorSpec, axes: Mapping[str, Axis], spread: Spread = NORMAL
) -> Iterator[DecodeCase]:
    """Targets of two lengths for every batch of images but the largest, and every split for one."""
    images = [case for case in image_cases(pixels, axes, spread) if len(case.pixels) in BATCHES]
    longest = min(decoding.capacity, LONGEST)
    for source, length in itertools.product(images, sorted({(longest + 1) // 2, longest})):
        yield from _whole_cases(dataclasses.replace(decoding, capacity=length), source, len(source.pixels))
    yield from _split_cases(decoding, images[1], len(images[1].pixels))


def generation_cases(decoding: Decoding) -> Iterator[DecodeCase]:
    """Whole targets for every batch size, and every split for one."""
    for batch in BATCHES:
        yield from _whole_cases(decoding, None, batch)
    yield from _split_cases(decoding, None, 2)


def _whole_cases(decoding: Decoding, source: Source | None, rows: int) -> Iterator[DecodeCase]:
    length = min(decoding.capacity, LONGEST)
    if not decoding.single_steps:
        yield _decode_case(decoding, source, rows, (length,))
    if length <= MOST_SPLITS or decoding.single_steps:
        yield _decode_case(decoding, source, rows, (1,) * length)


def _split_cases(decoding: Decoding, source: Source | None, rows: int) -> Iterator[DecodeCase]:
    if decoding.single_steps:
        return
    length = min(decoding.capacity, LONGEST)
    for split in ((1,) * length, *two_way(length), *compositions(length)):
        yield _decode_case(decoding, source, rows, split)
    yield _staggered_case(decoding, source, rows)


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


def _source_case(vocabulary: int, batch: int, length: int) -> SourceCase:
    rng = np.random.default_rng([batch, length])
    lengths = np.maximum(1, length - np.arange(batch) * max(1, length // 4))
    return SourceCase(
        name=f"batch {batch}, source {length}",
        ids=rng.integers(0, vocabulary, (batch, length)),
        mask=np.arange(length)[None] < lengths[:, None],
    )


def _decode_case(decoding: Decoding, source: Source | None, rows: int, split: tuple[int, ...]) -> DecodeCase:
    begins = itertools.accumulate(split[:-1], initial=0)
    parts = "+".join(map(str, split)) if len(split) <= 6 else f"{len(split)} single steps"
    return DecodeCase(
        name=f"{_name(source, rows)}, target {parts}",
        source=source,
        target=_target(decoding, rows, sum(split)),
        chunks=tuple((size, np.full(rows, begin)) for size, begin in zip(split, begins, strict=True)),
    )


def _staggered_case(decoding: Decoding, source: Source | None, rows: int) -> DecodeCase:
    # Row b goes b positions back after the prefill and writes over its own entries, so the rows' lengths differ.
    length, back = min(decoding.capacity, LONGEST), np.arange(rows)
    half = length // 2
    rest = (length - half, half - back), (rows - 1, np.full(rows, length - rows + 1))
    return DecodeCase(
        name=f"{_name(source, rows)}, rows at different positions",
        source=source,
        target=_target(decoding, rows, length),
        chunks=((half, np.zeros_like(back)), *rest),
    )


def _name(source: Source | None, rows: int) -> str:
    return f"batch {rows}" if source is None else source.name


def _target(decoding: Decoding, rows: int, length: int) -> Array:
    tokens: Array = np.random.default_rng(length).integers(0, decoding.vocabulary, (rows, length))
    return tokens
