"""The stage checkpoint → ONNX artefact: done only when needed, and by one process at a time.

Nothing here imports torch, so that an unchanged export is known as such in a fraction of a second.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from export.fingerprint import Option, current_artefact, fingerprint_of
from export.own_process import start_importing
from export.precisions import precision_named, require_calibrated
from models.errors import OutputError
from models.folders import one_at_a_time
from models.manifest import MANIFEST_NAME, Manifest


def export_onnx(
    name: str,
    out: Path,
    explain: bool = False,
    uint8: bool = False,
    precision: str = "fp32",
    calibration: Path | None = None,
) -> tuple[Manifest, bool]:
    """Export every graph of a checkpoint, unless the folder already holds just that.

    Args:
        name: a checkpoint folder, a Python file, a shipped checkpoint or a preset.
        out: the artefact's folder; replaced in one step.
        explain: whether graphs are added that show what the model attends to.
        uint8: whether graphs take the bytes of images.
        precision: of the graphs, a name of :data:`export.precisions.PRECISIONS`.
        calibration: a file or folder with samples, for a precision that is calibrated
            (:func:`export.calibration.samples.samples_for`).

    Returns:
        The manifest, and whether anything was done.

    Raises:
        UnknownNameError, ArtefactError, ConfigError: the checkpoint cannot be had, or explained; no precision has that
            name.
        InputError: the precision is not for this model, or there are no samples to calibrate it with.
        ExportError: a graph does not keep its signature.
        OutputError: the folder cannot be written, or holds something else.
    """
    require_calibrated(precision_named(precision), calibration)
    options: dict[str, Option] = {"explain": explain, "uint8": uint8, "precision": precision_named(precision).name}
    if calibration is not None:
        options["calibration"] = str(calibration.resolve())
    fingerprint = fingerprint_of(name, options)
    current = current_artefact(out, fingerprint)
    if current is not None:
        return current, False
    refuse_foreign(out)
    with one_at_a_time(out):
        return _made(name, out, options, fingerprint)


def _made(name: str, out: Path, options: Mapping[str, Option], fingerprint: str) -> tuple[Manifest, bool]:
    current = current_artefact(out, fingerprint)  # another process may have made it in the meantime
    if current is not None:
        return current, False
    start_importing()
    from export.artefact import write_artefact  # torch: seconds, for those alone who need it

    return write_artefact(name, out, options, fingerprint), True


def refuse_foreign(out: Path) -> None:
    """Refuse to replace a folder that is no artefact.

    Raises:
        OutputError: it holds files, and no manifest.
    """
    if out.is_dir() and any(out.iterdir()) and not (out / MANIFEST_NAME).is_file():
        raise OutputError(
            f"an empty folder or an earlier export at {out}",
            "other files and no manifest.json",
            "choose another --out: this one would be replaced",
        )
