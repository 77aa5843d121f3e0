"""Seconds that were measured on a grid, and between its points bilinear.

f(x, y) = Σ wᵢ wⱼ s(xᵢ, yⱼ) over the four points around (x, y); below the grid its edge holds
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from attendant.errors import ConfigError

Axis = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeTable:
    """What runs of two sizes take.

    Attributes:
        sizes: of the first axis, rising: rows of a run, or its positions.
        lengths: of the second, rising: positions that are attended, or of a source.
        seconds: for each size what a run takes at each length.

    Raises:
        ConfigError: an axis is empty or does not rise, a time is missing or not above 0.
    """

    sizes: Axis
    lengths: Axis
    seconds: tuple[tuple[float, ...], ...]
    _cache: dict[tuple[int, int], float] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name, axis in (("sizes", self.sizes), ("lengths", self.lengths)):
            if not axis or axis[0] < 1 or any(after <= before for before, after in pairwise(axis)):
                raise ConfigError(f"{name} of at least 1 that rise", str(list(axis)), f"correct {name}")
        shape = (len(self.seconds), {len(row) for row in self.seconds})
        if shape != (len(self.sizes), {len(self.lengths)}):
            expected = f"{len(self.sizes)} rows of {len(self.lengths)} seconds, one for each size and length"
            raise ConfigError(expected, f"{shape[0]} rows of {sorted(shape[1])}", "correct seconds")
        if not all(second > 0 for row in self.seconds for second in row):
            raise ConfigError("seconds above 0", str(min(map(min, self.seconds))), "correct seconds")

    def at(self, size: int, length: int) -> float:
        """What a run of this size takes.

        Raises:
            ConfigError: it lies beyond the grid, where nothing is known.
        """
        known = self._cache.get((size, length))
        if known is None:
            row, column = _neighbours(self.sizes, size, "sizes"), _neighbours(self.lengths, length, "lengths")
            known = self._cache[size, length] = sum(
                row_weight * column_weight * self.seconds[i][j] for i, row_weight in row for j, column_weight in column
            )
        return known


def _neighbours(axis: Sequence[int], value: int, name: str) -> tuple[tuple[int, float], ...]:
    if value > axis[-1]:
        raise ConfigError(f"{name} of a profile up to {value}", f"up to {axis[-1]}", "measure further, or ask for less")
    after = bisect_left(axis, value)
    if after == 0:
        return ((0, 1.0),)
    weight = (value - axis[after - 1]) / (axis[after] - axis[after - 1])
    return ((after - 1, 1 - weight), (after, weight))
