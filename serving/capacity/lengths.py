"""How long prompts and answers are, in tokens: distributions that a demand's file names.

constant    tokens
uniform     every length from least to most alike
lognormal   exp(N(μ, σ²)): μ = ln median, σ = (ln p95 − ln median) / 1.6449; drawn again outside of least … most
values      those that were observed, each as often as it is listed
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import log
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from attendant.errors import ConfigError
from attendant.printable import shown
from serving.capacity.config_file import build_config

Counts = NDArray[np.int64]
MOST_TOKENS = 10_000_000
_NORMAL_P95 = 1.6448536269514722


class Lengths(Protocol):
    """A distribution of lengths."""

    @property
    def longest(self) -> int:
        """The greatest that can be drawn."""

    def draw(self, rng: np.random.Generator, count: int) -> Counts:
        """So many lengths, int64 ``[N]``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstantLength:
    """One length.

    Raises:
        ConfigError: it is below 1.
    """

    tokens: int

    def __post_init__(self) -> None:
        _require_ascending(self, "tokens")

    @property
    def longest(self) -> int:
        return self.tokens

    def draw(self, rng: np.random.Generator, count: int) -> Counts:
        return np.full(count, self.tokens, dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class UniformLengths:
    """Every length of a range alike.

    Raises:
        ConfigError: not 1 ≤ least ≤ most.
    """

    least: int
    most: int

    def __post_init__(self) -> None:
        _require_ascending(self, "least", "most")

    @property
    def longest(self) -> int:
        """The end of the range."""
        return self.most

    def draw(self, rng: np.random.Generator, count: int) -> Counts:
        return rng.integers(self.least, self.most + 1, count)


@dataclass(frozen=True, slots=True, kw_only=True)
class LognormalLengths:
    """Most lengths near the median, some much longer; all from least to most.

    Raises:
        ConfigError: not 1 ≤ least ≤ median ≤ p95 ≤ most.
    """

    median: float
    p95: float
    least: int = 1
    most: int

    def __post_init__(self) -> None:
        _require_ascending(self, "least", "median", "p95", "most")

    @property
    def longest(self) -> int:
        """The end of the range."""
        return self.most

    def draw(self, rng: np.random.Generator, count: int) -> Counts:
        drawn = np.zeros(count, dtype=np.int64)
        outside = np.arange(count)
        while outside.size:
            sigma = (log(self.p95) - log(self.median)) / _NORMAL_P95
            drawn[outside] = np.rint(rng.lognormal(log(self.median), sigma, outside.size)).astype(np.int64)
            outside = outside[(drawn[outside] < self.least) | (drawn[outside] > self.most)]
        return drawn


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedLengths:
    """Lengths that were observed.

    Raises:
        ConfigError: there are none, or one is below 1.
    """

    values: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.values or min(self.values) < 1:
            raise ConfigError("values of at least 1", str(self.values[:9] or "none"), "correct values")

    @property
    def longest(self) -> int:
        """The greatest of them."""
        return max(self.values)

    def draw(self, rng: np.random.Generator, count: int) -> Counts:
        return rng.choice(np.array(self.values, dtype=np.int64), count)


_KINDS: dict[str, type[Any]] = {
    "constant": ConstantLength,
    "uniform": UniformLengths,
    "lognormal": LognormalLengths,
    "values": ObservedLengths,
}


def parse_lengths(value: Mapping[str, Any], place: str) -> Lengths:
    """The distribution that an object of a demand's file describes.

    Raises:
        ConfigError: its kind is unknown, or a value is none that it can have.
    """
    kind = value.get("kind")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise ConfigError(f"kind in {place}, one of {list(_KINDS)}", shown(kind), "correct kind")
    lengths: Lengths = build_config(_KINDS[kind], {key: one for key, one in value.items() if key != "kind"}, place)
    if lengths.longest > MOST_TOKENS:
        raise ConfigError(f"at most {MOST_TOKENS} tokens in {place}", str(lengths.longest), "correct it")
    return lengths


def _require_ascending(lengths: Any, *names: str) -> None:
    values = [getattr(lengths, name) for name in names]
    if not all(before <= after for before, after in pairwise([1, *values])):
        found = ", ".join(f"{name} = {value}" for name, value in zip(names, values, strict=True))
        raise ConfigError(f"1 ≤ {' ≤ '.join(names)}", found, "correct them")
