"""What an artefact is made of: the name that its user typed, and what is loaded in its place."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A model by its names.

    Attributes:
        name: as the user typed it; the manifest keeps it.
        loaded: the same, but of a Python file the ``.pt2`` file that it gave.
    """

    name: str
    loaded: str
