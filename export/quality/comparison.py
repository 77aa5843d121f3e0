"""One model in every precision: sizes, and what is left of it in each."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from attendant.errors import AttendantError
from attendant.manifest import Manifest
from attendant.onnx_file import check_onnx_file
from attendant.tensor_names import EXPLAINED
from export.artefact.stage import export_onnx
from export.passes.tensorrt.passes import TENSORRT
from export.quality.budgets import BudgetVerdict, budget_of, verdicts_of
from export.quality.measure import measure_quality
from export.quality.quality import ROUNDED, SERVED, STANDARD, TENSORRT_FORM, Quality


@dataclass(frozen=True, slots=True, kw_only=True)
class PrecisionCost:
    """A model in one precision.

    Attributes:
        model: its name.
        precision: how command lines call it.
        sizes: form → bytes of its graphs, weights in other files included.
        qualities: what was measured, what is served first.
        verdicts: the same, held to the budget of the precision.
        refusal: why there is no such artefact, or nothing here that executes it; empty if there is.
    """

    model: str
    precision: str
    sizes: Mapping[str, int]
    qualities: Sequence[Quality] = ()
    verdicts: Sequence[BudgetVerdict] = ()
    refusal: str = ""


def compare_models(models: Sequence[str], precisions: Sequence[str], out: Path, full: bool) -> Iterator[PrecisionCost]:
    """Export each model in each precision, and measure it.

    Args:
        models: as for ``export onnx``.
        precisions: names.
        out: artefacts go to ``<model>/<precision>`` below it; those that are there and unchanged are taken.
        full: as for :func:`export.quality.measure.measure_quality`.
    """
    for model in models:
        place = out / Path(model).stem
        if len(precisions) > 1:
            with suppress(AttendantError):  # which every precision then tells of itself
                export_onnx(model, place / "fp32", precision="fp32")  # once, for all of them
        for precision in precisions:
            yield _compare_model(model, precision, place / precision, full)


def _compare_model(model: str, precision: str, folder: Path, full: bool) -> PrecisionCost:
    name = Path(model).stem
    try:
        manifest, _ = export_onnx(model, folder, precision=precision, exported=folder.parent / "fp32")
        qualities = measure_quality(folder, full=full)
    except AttendantError as error:
        return PrecisionCost(
            model=name, precision=precision, sizes={}, refusal=f"{error.expected}; found {error.found}"
        )
    return PrecisionCost(
        model=name,
        precision=precision,
        sizes={
            SERVED: _size(folder, manifest, "ort-cpu"),
            **dict.fromkeys((STANDARD, ROUNDED), _size(folder, manifest, "")),
            TENSORRT_FORM: _size(folder, manifest, TENSORRT),
        },
        qualities=qualities,
        verdicts=verdicts_of(qualities, budget_of(precision)),
    )


def _size(folder: Path, manifest: Manifest, target: str) -> int:
    names = [signature.name for signature in manifest.graphs if signature.name != EXPLAINED]
    files = {folder / manifest.file_for(name, target) for name in names}
    for graph in tuple(files):
        files |= {folder / name for name in check_onnx_file(graph)}
    return sum(file.stat().st_size for file in files)
