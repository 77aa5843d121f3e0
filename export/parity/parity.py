"""What a parity check found: errors against the float64 reference, tolerances, and the verdict.

A tolerance is not chosen. Each graph's is ``SAFETY`` times the largest error that the eager float32 model itself makes
against float64 over the same cases: another runtime adds the same numbers in another order, so its error is of that
size, and a wrong weight or mask is far outside it. Of a graph in another precision the tolerance is larger by
the ratio of the roundoffs of its numbers and of float32's: an error travels through a model in proportion to its size.
"""

import json
import math
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from attendant.errors import OutputError, ParityError
from attendant.records import read_json, write_new_file
from export.precision.precisions import PRECISIONS, Precision
from serving.runtime.base import Array

PARITY_NAME = "parity.json"
# The largest rounding error of a few thousand random ones varies by about 2 from sample to sample, and a runtime that
# accumulates in longer or shorter vectors makes its own larger or smaller by as much again; the rest is margin.
SAFETY = PRECISIONS["fp32"].safety
YARDSTICK = "eager float32"
ROWS_ALONE = "eager float64, each row alone"
_EPSILON_RATIO = float(np.finfo(np.float64).eps / np.finfo(np.float32).eps)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One runner's error in one case.

    Attributes:
        graph: whose output was compared.
        level: the runner, with its precision.
        case: batch size, lengths and split.
        error: largest absolute difference from the float64 reference; NaN where a value is not finite.
        scale: largest absolute value of the reference.
    """

    graph: str
    level: str
    case: str
    error: float
    scale: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ParityLevel:
    """All cases of one runner on one graph, against the tolerance."""

    graph: str
    name: str
    cases: int
    worst: Measurement
    tolerance: float

    @property
    def passed(self) -> bool:
        """Whether the largest error is within the tolerance; NaN is not."""
        return self.worst.error <= self.tolerance


def compare(graph: str, level: str, case: str, found: Array, reference: Array) -> Measurement:
    """Measure a result against the float64 reference of the same shape."""
    if found.dtype == np.uint16:  # the bits of bfloat16, which NumPy lacks; no graph returns whole numbers of 16
        found = (found.astype(np.uint32) << 16).view(np.float32)
    error = float(np.abs(found.astype(np.float64) - reference).max()) if found.shape == reference.shape else math.nan
    return Measurement(graph=graph, level=level, case=case, error=error, scale=float(np.abs(reference).max()))


def levels_of(measurements: Iterable[Measurement], precision: Precision = PRECISIONS["fp32"]) -> list[ParityLevel]:
    """Gather measurements by graph and runner, in order of appearance, and hold each to its tolerance.

    Args:
        measurements: of one artefact.
        precision: of its graphs, which every level has but the eager ones.
    """
    groups: dict[tuple[str, str], list[Measurement]] = {}
    for measurement in measurements:
        groups.setdefault((measurement.graph, measurement.level), []).append(measurement)
    return [
        ParityLevel(
            graph=graph,
            name=level,
            cases=len(group),
            worst=max(group, key=lambda m: math.inf if math.isnan(m.error) else m.error),
            tolerance=_tolerance(groups[graph, YARDSTICK], level, precision),
        )
        for (graph, level), group in groups.items()
    ]


def write_report(
    measurements: list[Measurement], levels: list[ParityLevel], folder: Path, quality: Mapping[str, Any] | None = None
) -> Path:
    """Write ``parity.json``: the verdict of each level, every case behind it, and what is left of the model.

    Args:
        measurements: of the parity check.
        levels: the same, held to their tolerances.
        folder: the artefact.
        quality: what :func:`export.quality.report.quality_to_json` makes of it, if that was measured.

    Raises:
        OutputError: the folder cannot be written.
    """
    path = folder / PARITY_NAME
    value = {
        "reference": "eager float64",
        "safety": SAFETY,
        "runtimes": _runtimes(),
        "passed": all(level.passed for level in levels)
        and all(one["passed"] for one in (quality or {}).get("verdicts", ())),
        "quality": quality,
        "levels": [_level_to_json(level) for level in levels],
        "cases": [
            {"graph": m.graph, "level": m.level, "case": m.case, "error": _number(m.error)} for m in measurements
        ],
    }
    try:
        write_new_file(path, json.dumps(value, indent=1) + "\n")
    except OSError as error:
        raise OutputError(f"a place to write at {path}", str(error), "make the folder writable") from error
    return path


def read_passed(folder: Path) -> list[ParityLevel] | None:
    """The levels of an artefact's ``parity.json``, each with its worst case alone.

    None unless it says that all hold, by the runtimes that are installed now.
    """
    try:
        value = read_json(folder / PARITY_NAME)
        if value["runtimes"] != _runtimes():
            return None
        levels = [_level_from_json(level) for level in value["levels"]]
    except (OSError, ValueError, LookupError, TypeError):
        return None
    return levels if value["passed"] is True and levels and all(level.passed for level in levels) else None


def require_parity(levels: Iterable[ParityLevel], report: Path) -> None:
    """Fail unless every level holds.

    Raises:
        ParityError: one does not; the message names the worst case.
    """
    for level in levels:
        if not level.passed:
            remedy = "export again, and suspect the weights first and the masks second"
            if level.name == ROWS_ALONE:
                remedy = "let no row of forward() depend on another: is batch_first=True missing?"
            elif not math.isfinite(level.worst.scale):
                remedy = (
                    "the module itself makes no finite numbers of the inputs that are drawn: of a custom model, "
                    "state between what they lie, as within={'x': (0.0, 1.0)} in its contract"
                )
            raise ParityError(
                f"{level.graph} on {level.name} within {level.tolerance:.2g} of the float64 reference",
                f"{level.worst.error:.2g} in case {level.worst.case!r}",
                f"see {report}; {remedy}",
            )


def _tolerance(yardstick: list[Measurement], level: str, precision: Precision) -> float:
    own = max(measurement.error for measurement in yardstick)
    floor = float(np.finfo(np.float32).eps) * max(measurement.scale for measurement in yardstick)
    error = max(own, floor)
    if "eager" in level:
        return SAFETY * error * (_EPSILON_RATIO if level.endswith("float64") else 1.0)
    return precision.safety * error * precision.roundoff / PRECISIONS["fp32"].roundoff


def _level_to_json(level: ParityLevel) -> dict[str, Any]:
    return {
        "graph": level.graph,
        "level": level.name,
        "cases": level.cases,
        "max_error": _number(level.worst.error),
        "worst_case": level.worst.case,
        "tolerance": level.tolerance,
        "passed": level.passed,
    }


def _runtimes() -> dict[str, str]:
    found = {}
    for package in ("torch", "onnxruntime", "onnxruntime-gpu", "openvino"):
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


def _level_from_json(value: Mapping[str, Any]) -> ParityLevel:
    graph, name, case = (str(value[key]) for key in ("graph", "level", "worst_case"))
    worst = Measurement(graph=graph, level=name, case=case, error=float(value["max_error"]), scale=math.nan)
    cases, tolerance = int(value["cases"]), float(value["tolerance"])
    return ParityLevel(graph=graph, name=name, cases=cases, worst=worst, tolerance=tolerance)


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
