"""What became of a file: what the terminal, the page and programs are told."""

from dataclasses import asdict, dataclass
from typing import Any

from export.mixed_precision.search import Found
from export.targets.check import ConstraintCheck


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptNode:
    """An operator that stays in float32.

    Attributes:
        name: of the node, or its first output.
        operator: what it computes.
        reason: why.
        measured: whether the search found it; otherwise its type or the target leaves no choice.
    """

    name: str
    operator: str
    reason: str
    measured: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Typed:
    """What was changed of a graph.

    Attributes:
        operators: operator → how many became narrower.
        kept: the others, with reasons.
        found: what the search says.
    """

    operators: dict[str, int]
    kept: tuple[KeptNode, ...]
    found: Found


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one file.

    Attributes:
        source: the file.
        out: what was written.
        precision: fp16, bf16 or int8.
        target: the runtime that it is for.
        opset: of what was written.
        typed: what of its operators became narrower, and what stays.
        budget: the largest drift that was allowed.
        drift: measured value → drift of what was written.
        samples: how many inputs it was measured with.
        feeds: where they come from.
        nbytes: of weights, before and after.
        checks: the target's constraints, and what violates them.
        passes: what the target's own passes did: name → places.
    """

    source: str
    out: str
    precision: str
    target: str
    opset: int
    typed: Typed
    budget: float
    drift: dict[str, float]
    samples: int
    feeds: str
    nbytes: tuple[int, int]
    checks: list[ConstraintCheck]
    passes: dict[str, int]

    @property
    def worst(self) -> float:
        """The drift of the worst value."""
        return max(self.drift.values(), default=0.0)

    @property
    def measured(self) -> tuple[KeptNode, ...]:
        """What the search kept."""
        return tuple(node for node in self.typed.kept if node.measured)

    def to_json(self) -> dict[str, Any]:
        """The outcome as plain JSON values; checks as their violations."""
        value = {name: getattr(self, name) for name in self.__slots__ if name not in ("typed", "checks")}
        violations = [one.to_json() for one in self.checks if one.violations]
        found = self.typed.found
        kept = [asdict(node) for node in self.typed.kept]
        measured = {"drift_of_all": found.drift_of_all, "runs": found.runs}
        return {**value, "operators": self.typed.operators, "kept": kept, **measured, "violations": violations}
