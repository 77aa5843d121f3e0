"""An artefact against its model, by every runtime that serves it: the verdicts, and what they rest on."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attendant.manifest import Manifest
from export.bounded.process import TIMEOUT_S, run_bounded
from export.parity.parity import ParityLevel, levels_of, require_parity, write_report
from export.precision.precisions import precision_named
from export.quality.budgets import BudgetVerdict, budget_of, require_budget, verdicts_of
from export.quality.quality import Quality
from export.quality.report import quality_to_json


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What was found.

    Attributes:
        precision: of the artefact.
        levels: of the parity check.
        qualities: what is left of the model, by form.
        verdicts: the same, held to the precision's budget.
        quality: qualities and verdicts as JSON.
        report: the file that was written.
    """

    precision: str
    levels: list[ParityLevel]
    qualities: list[Quality]
    verdicts: list[BudgetVerdict]
    quality: dict[str, Any]
    report: Path

    def require(self) -> None:
        """Fail unless every level and every budget holds.

        Raises:
            ParityError: one does not.
        """
        require_parity(self.levels, self.report)
        require_budget(self.verdicts, self.precision, self.report)


def verify_artefact(
    folder: Path, source: str | None = None, full: bool = False, timeout_s: float = TIMEOUT_S
) -> Verification:
    """Compare an artefact with PyTorch in a process of its own, and write ``parity.json``.

    Args:
        folder: the artefact.
        source: the checkpoint, if not the one that the manifest names.
        full: whether every held-out text of a language model is asked.
        timeout_s: how long a runtime may take to load a graph, or to run it once.

    Raises:
        ArtefactError: a graph fails, takes too long or takes too much memory, or the checkpoint is another.
        OutputError: the report cannot be written.
    """
    precision = precision_named(Manifest.read(folder).precision)
    measure = "export.quality.measure:measure_artefact"
    measurements, qualities = run_bounded(measure, folder, source, full, timeout_s=timeout_s)
    levels = levels_of(measurements, precision)
    verdicts = verdicts_of(qualities, budget_of(precision.name))
    quality = quality_to_json(precision.name, qualities, verdicts)
    report = write_report(measurements, levels, folder, quality)
    return Verification(
        precision=precision.name,
        levels=levels,
        qualities=qualities,
        verdicts=verdicts,
        quality=quality,
        report=report,
    )
