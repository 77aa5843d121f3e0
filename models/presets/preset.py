"""What a named configuration is."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """A named configuration.

    Attributes:
        family: of its architecture.
        config: its sizes.
        compared_with: the independent implementations that the tests hold this architecture to.
    """

    family: str
    config: Any
    compared_with: str
