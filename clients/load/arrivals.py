"""When requests are to be sent, in seconds from the beginning: drawn before a run, so that no answer can delay them.

    constant   t_n = n / λ
    poisson    t_n − t_(n−1) exponential, mean 1/λ
    gamma      t_n − t_(n−1) gamma of shape k, mean 1/λ: k = 1 is Poisson, less comes in bursts, more is even
    ramp       Poisson whose rate goes in a straight line from λ₀ to λ₁: Λ(t) = λ₀ t + (λ₁ − λ₀) t² / 2D,
               t_n = Λ⁻¹(s_n) of the times s_n of a Poisson process of rate 1
    replay     as recorded, faster by a factor

A closed loop has no such times: each of its clients sends when its last answer came.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attendant.errors import ConfigError

Times = NDArray[np.float64]
BLOCK = 4096
MOST_CLIENTS = 100_000
MOST_TIMES = 10_000_000
"""They are drawn before the run, and all are kept."""
LEAST_RATE, MOST_RATE = 1e-9, 1e9
LEAST_SHAPE, MOST_SHAPE = 1e-3, 1e6
"""Of gamma gaps: beyond them nearly all are 0, or all alike."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedLoop:
    """So many clients at once, each of which sends its next request when its last one has ended.

    Raises:
        ConfigError: there is not even one, or there are more than :data:`MOST_CLIENTS`.
    """

    concurrency: int = 1

    def __post_init__(self) -> None:
        _require(self, "concurrency", 1 <= self.concurrency <= MOST_CLIENTS, f"from 1 to {MOST_CLIENTS}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """Requests at even distances.

    Raises:
        ConfigError: the rate, requests a second, is not above 0, or beyond reason.
    """

    rate: float

    def __post_init__(self) -> None:
        _require_rate(self, "rate")


@dataclass(frozen=True, slots=True, kw_only=True)
class Poisson:
    """Requests of many independent clients.

    Raises:
        ConfigError: the rate, requests a second, is not above 0, or beyond reason.
    """

    rate: float

    def __post_init__(self) -> None:
        _require_rate(self, "rate")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gamma:
    """Requests in bursts (shape below 1), or more even than Poisson's (above).

    Raises:
        ConfigError: rate, requests a second, or shape is not above 0, or beyond reason.
    """

    rate: float
    shape: float

    def __post_init__(self) -> None:
        _require_rate(self, "rate")
        _require_within(self, "shape", LEAST_SHAPE, MOST_SHAPE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ramp:
    """Poisson arrivals whose rate changes evenly from the beginning of a run to its end.

    Raises:
        ConfigError: a rate, requests a second, is negative or beyond reason, or both are 0.
    """

    first_rate: float
    last_rate: float

    def __post_init__(self) -> None:
        for name in ("first_rate", "last_rate"):
            if getattr(self, name) != 0:
                _require_rate(self, name)
        _require(self, "last_rate", self.first_rate + self.last_rate > 0, "above 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """Requests at recorded times; see docs/guides/load.md for the file.

    Raises:
        ConfigError: the speed, a factor, is not above 0, or beyond reason.
    """

    trace: str
    speed: float = 1.0

    def __post_init__(self) -> None:
        _require_within(self, "speed", 1e-300, MOST_RATE)


OpenLoop = Constant | Poisson | Gamma | Ramp
Arrivals = ClosedLoop | OpenLoop | Replay


def kind_of(arrivals: Arrivals) -> str:
    """The name of such arrivals in a scenario's file."""
    return "closed" if isinstance(arrivals, ClosedLoop) else type(arrivals).__name__.lower()


def require_drawable(arrivals: OpenLoop, ends_s: float | None = None, number: int | None = None) -> None:
    """Make sure that times have an end, without drawing them; see :func:`draw_times`.

    Raises:
        ConfigError: neither end is given, a ramp has no duration, or there are too many.
    """
    if ends_s is None and (number is None or isinstance(arrivals, Ramp)):
        raise ConfigError("a duration_s, of a ramp always", "none", "say how long requests are sent")
    until_s = np.inf if ends_s is None else ends_s
    rate = max(arrivals.first_rate, arrivals.last_rate) if isinstance(arrivals, Ramp) else arrivals.rate
    expected = min(rate * until_s, np.inf if number is None else number)
    if not expected <= MOST_TIMES:
        raise ConfigError(
            f"at most {MOST_TIMES:,} requests in a run", f"{expected:,.0f}", "lower the rate, or run it shorter"
        )


def draw_times(
    arrivals: OpenLoop, rng: np.random.Generator, ends_s: float | None = None, number: int | None = None
) -> Times:
    """The times of an open loop, float64 ``[N]``, in order.

    Args:
        arrivals: how they come.
        rng: they are drawn from.
        ends_s: none is at this time or later; a ramp needs it.
        number: at most so many.

    Raises:
        ConfigError: neither end is given, a ramp has no duration, or there are too many.
    """
    require_drawable(arrivals, ends_s, number)
    until_s = np.inf if ends_s is None else ends_s
    match arrivals:
        case Constant(rate=rate):
            count = np.ceil(until_s * rate) if number is None else min(number, np.ceil(until_s * rate))
            drawn = np.arange(count) / rate
        case Poisson(rate=rate):
            drawn = _cumulative(lambda count: rng.exponential(1 / rate, count), until_s, number)
        case Gamma(rate=rate, shape=shape):
            drawn = _cumulative(lambda count: rng.gamma(shape, 1 / (rate * shape), count), until_s, number)
        case Ramp():
            first, slope = arrivals.first_rate, (arrivals.last_rate - arrivals.first_rate) / until_s
            whole = until_s * (arrivals.first_rate + arrivals.last_rate) / 2
            sums = _cumulative(lambda count: rng.exponential(1.0, count), whole)
            sums = sums[sums < whole]
            # The root of slope t²/2 + first t = s that lies in the run, written so that nothing cancels.
            drawn = np.asarray(2 * sums / (first + np.sqrt(first**2 + 2 * slope * sums)))
    return drawn[drawn < until_s][:number]


def _cumulative(draw: Callable[[int], Times], until: float, number: int | None = None) -> Times:
    blocks, total, count = [np.zeros(0)], 0.0, 0
    while total < until and (number is None or count < number):
        blocks.append(total + np.cumsum(draw(BLOCK)))
        total, count = float(blocks[-1][-1]), count + BLOCK
    return np.concatenate(blocks)


def _require(config: Any, name: str, is_good: bool, expected: str) -> None:
    if not is_good:
        raise ConfigError(f"{name} {expected}", str(getattr(config, name)), f"correct {name}")


def _require_rate(config: Any, name: str) -> None:
    _require_within(config, name, LEAST_RATE, MOST_RATE)


def _require_within(config: Any, name: str, least: float, most: float) -> None:
    _require(config, name, least <= getattr(config, name) <= most, f"above 0, from {least:g} to {most:g}")
