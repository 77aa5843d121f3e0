"""Check the parity of an exported artefact: eager float64 → eager float32 → every runtime, over many cases."""

from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from attendant.config import config_to_json
from attendant.errors import ArtefactError
from attendant.manifest import Manifest
from attendant.tasks import TASKS, resolve
from attendant.tensor_names import EXPLAINED, PREFILL
from export.bounded.process import guarded
from export.bounded.runner import guard_runners, load_guarded
from export.parity.cases import Spread
from export.parity.eager import eager_runners
from export.parity.parity import YARDSTICK, Measurement
from export.parity.task_checks import LOWERED, OPENVINO, REFERENCE, RUNTIME, TENSORRT_FORM, Runners
from export.precision.precisions import precision_named
from export.precision.rounded import in_float32, rounded_runners
from export.precision.tensorrt_form import tensorrt_runners
from models.checkpoints.resolve import checkpoint_named
from models.checkpoints.store import Checkpoint
from models.tasks.from_bytes import takes_bytes
from serving.runtime.base import Runner
from serving.runtime.create_runners import create_runners
from serving.runtime.openvino.runner import OpenVinoRunner, openvino_is_installed
from serving.runtime.ort.runner import OrtRunner

_ORT = "ONNX Runtime"
SMALL_MODEL = 10_000_000
ROUNDED = "rounded to"
"""The level of a precision that ONNX Runtime's CPU provider lacks; see :mod:`export.precision.rounded`."""
TORCH = "torch"
"""The level of artefacts that torch runs, instead of ONNX Runtime's."""


def check_parity(folder: Path, source: str | Checkpoint | None = None) -> list[Measurement]:
    """Compare an artefact's graphs with the model they were made from.

    Args:
        folder: the artefact.
        source: the checkpoint, by name or loaded, if not the one that the manifest names.

    Returns:
        One measurement for each case and runner.

    Raises:
        ArtefactError: a file is not what the manifest says, a graph fails as it runs, or the checkpoint has another
            configuration.
    """
    manifest = Manifest.read(folder)
    manifest.verify(folder)
    checkpoint = checkpoint_of(manifest, source)
    if sum(parameter.numel() for parameter in checkpoint.model.parameters()) < SMALL_MODEL:
        torch.set_num_threads(1)  # more threads make a toy model up to 20 times slower where cores are shared
    names = [signature.name for signature in manifest.graphs]
    graphs = checkpoint.graphs(EXPLAINED in names, takes_bytes(manifest.graphs[0]), PREFILL in names)
    runners: Runners = {
        REFERENCE: dict(eager_runners(graphs, torch.float64)),
        YARDSTICK: dict(eager_runners(graphs, torch.float32)),
        RUNTIME: _runtime_runners(folder, manifest),
        LOWERED: _lowered_runners(folder, manifest),
        TENSORRT_FORM: _tensorrt_runners(folder, manifest),
    }
    if manifest.form == "onnx" and openvino_is_installed():
        runners[OPENVINO] = _openvino_runners(folder, manifest)
    measured = resolve(TASKS[manifest.task].parity)(checkpoint, runners, spreads_of(manifest))
    return [replace(one, level=_name_level(one.level, manifest)) for one in measured]


def spreads_of(manifest: Manifest) -> dict[str, Spread]:
    """How the floats were spread that an artefact was calibrated with: input → spread; nothing where it was not."""
    done = (outcome for outcomes in manifest.passes.values() for outcome in outcomes)
    found = (outcome["calibration"]["inputs"] for outcome in done if "calibration" in outcome)
    return {name: Spread(**spread) for inputs in found for name, spread in inputs.items()}


def _name_level(level: str, manifest: Manifest) -> str:
    precision = manifest.precision
    if "eager" in level:
        return level
    if manifest.form == "torch":
        return level.replace(RUNTIME, f"{TORCH} {'float32' if precision == 'fp32' else precision}")
    if precision == "fp32":
        return level
    ort = RUNTIME if precision_named(precision).ort_cpu else f"{ROUNDED} {precision}"
    return level.replace(RUNTIME, ort).replace("float32", precision)


def _runtime_runners(folder: Path, manifest: Manifest) -> dict[str, Runner]:
    if manifest.form == "torch":
        return dict(create_runners(folder, manifest))
    if not precision_named(manifest.precision).ort_cpu:
        with guarded(f"{_ORT} to load the graphs of {folder}"):
            return guard_runners(rounded_runners(folder, map(in_float32, manifest.graphs)), _ORT, folder)
    paths = [folder / f"{one.name}.onnx" for one in manifest.graphs]
    return {
        one.name: load_guarded(partial(OrtRunner, path, one), _ORT, path)
        for one, path in zip(manifest.graphs, paths, strict=True)
    }


def _lowered_runners(folder: Path, manifest: Manifest) -> dict[str, Runner]:
    lowered = [one.graph for one in manifest.lowered if one.file and one.target == "ort-cpu"]
    if not lowered:
        return {}
    with guarded(f"{_ORT} to load the graphs of {folder}"):
        served = create_runners(folder, manifest, runtime="onnxruntime")
    return guard_runners(served, _ORT, folder, lowered)


def _tensorrt_runners(folder: Path, manifest: Manifest) -> dict[str, Runner]:
    with guarded(f"{_ORT} to load TensorRT's graphs of {folder}"):
        return guard_runners(tensorrt_runners(folder, manifest), _ORT, folder)


def _openvino_runners(folder: Path, manifest: Manifest) -> dict[str, Runner]:
    runners: dict[str, Runner] = {}
    for signature in manifest.graphs:
        path = folder / manifest.file_for(signature.name, "openvino-cpu")
        with suppress(ArtefactError):  # a graph that it refuses is served by ONNX Runtime
            runners[signature.name] = load_guarded(partial(OpenVinoRunner, path, signature), "OpenVINO", path)
    return runners


def checkpoint_of(manifest: Manifest, source: str | Checkpoint | None = None) -> Checkpoint:
    """The model that an artefact was made from.

    Args:
        manifest: the artefact's.
        source: the checkpoint, by name or loaded, if not the one that the manifest names.

    Raises:
        ArtefactError: its name, family or configuration is another.
    """
    checkpoint = source if isinstance(source, Checkpoint) else checkpoint_named(source or manifest.source)
    wanted = manifest.name, manifest.family, manifest.config
    found = checkpoint.name, checkpoint.family.name, config_to_json(checkpoint.config)
    if wanted != found:
        raise ArtefactError(
            f"the checkpoint that the artefact was made from: {wanted}",
            str(found),
            "name the right one with --source, or export again",
        )
    return checkpoint
