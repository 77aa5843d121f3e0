"""What a pass did, and the rule that a pass which was counted on and did not fire is an error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from attendant.errors import ExportError

OURS = "attendant."
"""What the names of a node's metadata begin with that passes leave for each other; files keep no other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one pass did to one graph.

    Attributes:
        name: of the pass.
        fired: how many places it rewrote.
        refusals: for each place that is beyond the target's documented limits, the node and the limit.
        kept: for each place that was left in float32 on purpose, the node and why.
        calibration: what it was measured with and what was found, as JSON values; none where nothing is measured.
        misses: for each place that should have been rewritten and was not, the node and why.
    """

    name: str
    fired: int
    refusals: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    calibration: dict[str, Any] | None = None
    misses: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The outcome as plain JSON values."""
        value: dict[str, Any] = {"name": self.name, "fired": self.fired, "refusals": list(self.refusals)}
        if self.kept:
            value["kept"] = list(self.kept)
        return value if self.calibration is None else {**value, "calibration": self.calibration}


def require_no_misses(outcome: Outcome) -> None:
    """Hold a pass to every place within the target's limits.

    Raises:
        ExportError: it did not fire where it should have; the message holds its reasons.
    """
    if outcome.misses:
        raise ExportError(
            f"{outcome.name} to fire {outcome.fired + len(outcome.misses)} times",
            f"{outcome.fired}: {'; '.join(outcome.misses)}",
            "export with another version of torch or onnxscript, or report this graph",
        )
