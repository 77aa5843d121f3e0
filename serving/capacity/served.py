"""What a server adds to an engine, at one load; its clients too, where they share the machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

from attendant.errors import ConfigError
from serving.capacity.series import STRETCH, Draws, Series


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What was added while so many tokens were answered a second: spreads, and of responses stretches.

    Attributes:
        tokens_per_s: the load.
        way_s: of a request: all of its time to the first token that is spent outside of the engine and of the thread
            that answers: clients, network, server, checks, and waking the engine.
        first_response_s: to send a response while none other is being sent: the thread that answers is woken for it.
        response_s: to send one that had to wait for others.
        decode_factor: by which a step takes longer than its runs in a process that does nothing else.
        prompt_factor: of a step that reads prompts or sources.

    Raises:
        ConfigError: a series is empty, or a value is negative.
    """

    tokens_per_s: float = 0.0
    way_s: Series = (0.0,)
    first_response_s: Series = (0.0,)
    response_s: Series = (0.0,)
    decode_factor: Series = (1.0,)
    prompt_factor: Series = (1.0,)

    def __post_init__(self) -> None:
        for name in (spec.name for spec in fields(self) if spec.name != "tokens_per_s"):
            series = getattr(self, name)
            if not series or not min(series) >= 0:
                found = f"{min(series):g}" if series else "none"
                raise ConfigError(f"{name} of values of at least 0", found, f"correct {name}")


class Additions:
    """What a server adds at a load between those that were measured; beyond them the nearest holds."""

    def __init__(self, served: Sequence[Served], tokens_per_s: float) -> None:
        """Mix the two nearest.

        Args:
            served: what was measured, by rising loads; empty where a server adds nothing.
            tokens_per_s: the load.
        """
        loads = [one for one in served if one.tokens_per_s <= tokens_per_s][-1:]
        loads += [one for one in served if one.tokens_per_s > tokens_per_s][:1]
        self._mixture = [(one, 1.0) for one in loads[:1]] or [(Served(), 1.0)]
        if len(loads) == 2:
            low, high = loads
            share = (tokens_per_s - low.tokens_per_s) / (high.tokens_per_s - low.tokens_per_s)
            self._mixture = [(low, 1 - share), (high, share)]

    def draws(self, name: str, seed: int) -> Draws:
        """Values of one of the series of :class:`Served`."""
        stretch = STRETCH if name.endswith("response_s") else 1
        return Draws([(getattr(one, name), share) for one, share in self._mixture], seed, stretch)


def require_rising(served: Sequence[Served]) -> None:
    """Refuse loads that do not rise.

    Raises:
        ConfigError: they do not.
    """
    loads = [one.tokens_per_s for one in served]
    if loads != sorted(set(loads)):
        raise ConfigError("'served' by tokens_per_s that rise", str(loads), "order them")
