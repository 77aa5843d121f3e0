"""How much one generation engine may hold and do at once."""

from __future__ import annotations

from dataclasses import dataclass

from attendant.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """The bounds of one engine.

    Attributes:
        slots: sequences that are decoded at once; each takes a row of the cache.
        waiting: requests that may wait for a slot; one more is refused.
        prompt_tokens: most positions of prompts that one step works on, so that none holds up the others for long.
        prefix_bytes: memory for the keys and values of prompts that were seen before; 0 keeps none.

    Raises:
        ConfigError: a value is out of its range.
    """

    slots: int = 16
    waiting: int = 256
    prompt_tokens: int = 256
    prefix_bytes: int = 64 * 2**20

    def __post_init__(self) -> None:
        for name, least in (("slots", 1), ("waiting", 0), ("prompt_tokens", 1), ("prefix_bytes", 0)):
            if getattr(self, name) < least:
                raise ConfigError(f"{name} of at least {least}", str(getattr(self, name)), f"correct {name}")
