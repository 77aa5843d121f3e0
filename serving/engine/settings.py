"""How much one generation engine may hold and do at once."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Self

from attendant.errors import ConfigError
from attendant.parameters import MAX_PREFILL_TOKENS


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """The bounds of one engine.

    Attributes:
        max_num_seqs: sequences that are decoded at once; each takes a row of the KV cache.
        max_queue_size: requests that may wait for a row; one more is refused.
        max_prefill_tokens: most positions of prompts that one step works on, chunked prefill: none holds up others.
        prefix_cache_bytes: memory for the keys and values of earlier prompts; 0 keeps none.

    Raises:
        ConfigError: a value is out of its range.
    """

    max_num_seqs: int = 16
    max_queue_size: int = 256
    max_prefill_tokens: int = MAX_PREFILL_TOKENS
    prefix_cache_bytes: int = 64 * 2**20

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, str]) -> Self:
        """The settings among the parameters of a ``config.pbtxt``; those that are missing have their defaults."""
        return cls(**{one.name: int(parameters[one.name]) for one in fields(cls) if one.name in parameters})

    def __post_init__(self) -> None:
        for name, least, most in (
            ("max_num_seqs", 1, 2**20),
            ("max_queue_size", 0, 2**20),
            ("max_prefill_tokens", 1, 2**30),
            ("prefix_cache_bytes", 0, 2**50),
        ):
            if not least <= getattr(self, name) <= most:
                raise ConfigError(f"{name} from {least} to {most}", str(getattr(self, name)), f"correct {name}")
