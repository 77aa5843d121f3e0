"""The stages checkpoint → artefact, of ONNX graphs or for torch: done only when needed, and by one process at a time.

Nothing here imports torch, so that an unchanged export is known as such in a fraction of a second.
"""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Literal, get_args

from attendant.errors import ConfigError, InputError, OutputError
from attendant.folders import one_at_a_time
from attendant.manifest import MANIFEST_NAME, Form, Manifest
from attendant.records import read_json
from export.artefact.fingerprint import Option, current_artefact, fingerprint_of
from export.artefact.imported import imported_name
from export.artefact.own_process import start_importing
from export.artefact.source import Source
from export.precision.precisions import Precision, precision_named, require_calibrated, require_keeping, require_prefill
from models.checkpoints.custom_model import traced
from models.checkpoints.file_names import BITS_NAME, CONFIG_NAME
from models.checkpoints.place import place_of, shipped_names

TorchPrecision = Literal["fp32", "fp16", "bf16"]
TORCH_PRECISIONS: tuple[TorchPrecision, ...] = get_args(TorchPrecision)
Options = Mapping[str, Option]
_Write = Callable[[Source, Path, Options, str], Manifest]


def export_onnx(
    name: str,
    out: Path,
    explain: bool = False,
    uint8: bool = False,
    precision: str | None = None,
    calibration: Path | None = None,
    exported: Path | None = None,
    prefill: str | None = None,
) -> tuple[Manifest, bool]:
    """Export every graph of a checkpoint, unless the folder already holds just that.

    Args:
        name: a checkpoint folder, a Python file, a ``.pt2`` file, a shipped checkpoint or a preset.
        out: the artefact's folder; replaced in one step.
        explain: whether graphs are added that show what the model attends to.
        uint8: whether graphs take the bytes of images.
        precision: of the graphs, a name of :data:`export.precision.precisions.PRECISIONS`; if not given fp32, or of a
            checkpoint in integers the one that keeps them.
        calibration: a file or folder with samples, for a precision that is calibrated
            (:func:`export.precision.calibration.samples.samples_for`).
        exported: an artefact; where it is this export in fp32, its graphs are rewritten instead of others.
        prefill: of one more graph, which reads prompts (:func:`export.precision.precisions.require_prefill`).

    Returns:
        The manifest, and whether anything was done.

    Raises:
        UnknownNameError, ArtefactError, ConfigError: the checkpoint cannot be had, or explained, or has no prompts; no
            precision has that name.
        InputError: the precision is not for this model or its integers, or there are no samples to calibrate it with.
        ExportError: a graph does not keep its signature.
        OutputError: the folder cannot be written, or holds something else.
    """
    if precision is not None:
        require_calibrated(precision_named(precision), calibration)
        require_samples(name, precision_named(precision), calibration)
    name = imported_name(name, out)
    bits = _bits_of(name)
    chosen = precision_named(precision or ("fp32" if bits is None else f"int{bits}"))
    require_calibrated(chosen, calibration)
    if bits is not None:
        require_keeping(chosen, bits)
    if prefill is not None:
        require_prefill(chosen, prefill)
    options: dict[str, Option] = {"explain": explain, "uint8": uint8, "precision": chosen.name}
    if calibration is not None:
        options["calibration"] = str(calibration.resolve())
    if prefill is not None:
        options["prefill"] = prefill
    return _export("onnx", name, out, options, partial(_write_graphs, exported=exported))


def export_torch(name: str, out: Path, precision: str = "fp32") -> tuple[Manifest, bool]:
    """Write a checkpoint as an artefact that torch runs, unless the folder already holds just that.

    Args:
        name: a checkpoint folder, a shipped checkpoint or a preset.
        out: the artefact's folder; replaced in one step.
        precision: of the weights and of what is computed, one of :data:`TORCH_PRECISIONS`.

    Returns:
        The manifest, and whether anything was done.

    Raises:
        UnknownNameError, ArtefactError, ConfigError: the checkpoint cannot be had, or only a Python file can build
            it; no such precision.
        OutputError: the folder cannot be written, or holds something else.
    """
    if precision not in TORCH_PRECISIONS:
        raise ConfigError(f"a precision, one of {list(TORCH_PRECISIONS)}", repr(precision), "correct --precision")
    return _export("torch", name, out, {"precision": precision}, _write_weights)


def _export(form: Form, name: str, out: Path, options: Options, write: _Write) -> tuple[Manifest, bool]:
    name = imported_name(name, out)
    with traced(name) as loaded:
        fingerprint = fingerprint_of(loaded, options, form)
        current = current_artefact(out, fingerprint)
        if current is not None:
            return current, False
        refuse_foreign(out)
        with one_at_a_time(out):
            current = current_artefact(out, fingerprint)  # another process may have made it in the meantime
            made = write(Source(name=name, loaded=loaded), out, options, fingerprint) if current is None else None
    return (current or made, made is not None)  # type: ignore[return-value]  # one of them is there


def _write_graphs(source: Source, out: Path, options: Options, fingerprint: str, exported: Path | None) -> Manifest:
    float32 = None if exported is None else _same_in_fp32(source.loaded, exported, options)
    if float32 is None:
        start_importing()
    from export.artefact.onnx_artefact import write_artefact  # torch: seconds, for those alone who need it

    return write_artefact(source, out, options, fingerprint, float32)


def _same_in_fp32(name: str, exported: Path, options: Options) -> Path | None:
    others = {flag: value for flag, value in options.items() if flag != "calibration"}
    fingerprint = fingerprint_of(name, {**others, "precision": "fp32"})
    return None if current_artefact(exported, fingerprint) is None else exported


def _write_weights(source: Source, out: Path, options: Options, fingerprint: str) -> Manifest:
    from export.artefact.torch_artefact import write_torch_artefact  # torch, likewise

    return write_torch_artefact(source, out, options, fingerprint)


def require_samples(name: str, precision: Precision, calibration: Path | None) -> None:
    """Refuse, before anything is exported, to calibrate a model with samples that are not here or cannot be read.

    Raises:
        InputError: the precision measures; and no samples are given for a model that is not a shipped one, or texts
            and images for a preset, which has neither a tokenizer nor a preprocessing.
    """
    if not precision.calibrated:
        return
    place = place_of(name)
    if calibration is not None:
        if not calibration.exists():
            raise InputError("a file or a folder of samples", f"nothing at {calibration}", "correct --calibration")
        if place is None and calibration.suffix != ".npz":
            expected = "tensors to calibrate a preset with, which has neither a tokenizer nor a preprocessing"
            raise InputError(expected, str(calibration), "give an .npz of tensors with --calibration")
        return
    try:
        found = name if place is None else read_json(place / CONFIG_NAME)["name"]
    except (OSError, ValueError, KeyError, TypeError):
        found = name
    if found not in shipped_names():
        remedy = "name a folder of images, a file with a text in each line, or an .npz of tensors with --calibration"
        raise InputError(
            f"inputs to calibrate {found} with, whose training data is not here", "no --calibration", remedy
        )


def _bits_of(name: str) -> int | None:
    """Of a checkpoint's weights, where they are integers."""
    place = place_of(name)
    try:
        found = None if place is None else read_json(place / CONFIG_NAME)["details"].get(BITS_NAME)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None  # and what reads it says so
    return found if found in (4, 8) else None


def refuse_foreign(out: Path) -> None:
    """Refuse to replace a folder that is no artefact.

    Raises:
        OutputError: it holds files, and no manifest of an artefact.
    """
    if out.is_dir() and any(out.iterdir()) and not _is_of_ours(out / MANIFEST_NAME):
        raise OutputError(
            f"an empty folder or an earlier export at {out}",
            f"other files and no {MANIFEST_NAME} of one",
            "choose another --out: this one would be replaced",
        )


def _is_of_ours(manifest: Path) -> bool:
    """Whether it is an artefact's of any version, and not a web page's, say."""
    try:
        fields = read_json(manifest)
    except (OSError, ValueError):
        return False
    return isinstance(fields, dict) and {"format", "name", "task"} <= fields.keys()
