"""The stage checkpoint → ONNX artefact: graphs, companions and a manifest in one folder, made only when needed."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from export.onnx_graph import onnx_from_torch
from export.own_process import run_each
from models.checkpoints.resolve import checkpoint_named
from models.checkpoints.store import CONFIG_NAME, WEIGHTS_NAME, Checkpoint
from models.config import config_to_json
from models.errors import ArtefactError, OutputError
from models.folders import replaced_folder
from models.manifest import MANIFEST_NAME, Manifest, sha256_of
from models.progress import progress
from models.tasks.from_bytes import example_in_bytes, takes_bytes
from models.tasks.graph import TaskGraph
from models.tensor_names import EXPLAINED

_PACKAGES = ("torch", "onnx", "onnxscript")
_ROOT = Path(__file__).parent.parent
_NOT_IN_GRAPHS = {"train", "pretrained"}


def export_onnx(name: str, out: Path, explain: bool = False, uint8: bool = False) -> tuple[Manifest, bool]:
    """Export every graph of a checkpoint, unless the folder already holds just that.

    Args:
        name: a checkpoint folder, a Python file, a shipped checkpoint or a preset.
        out: the artefact's folder; replaced in one step.
        explain: whether graphs are added that show what the model attends to.
        uint8: whether graphs take the bytes of images.

    Returns:
        The manifest, and whether anything was done.

    Raises:
        UnknownNameError, ArtefactError, ConfigError: the checkpoint cannot be had, or explained.
        ExportError: a graph does not keep its signature.
        OutputError: the folder cannot be written, or holds something else.
    """
    checkpoint = checkpoint_named(name)
    graphs = checkpoint.graphs(explain, uint8)
    fingerprint = fingerprint_of(checkpoint, explain, uint8)
    current = _current(out, fingerprint)
    if current is not None:
        return current, False
    _refuse_foreign(out)
    with replaced_folder(out) as staged:
        _export_graphs(name, checkpoint, graphs, staged)
        for companion in checkpoint.companions():
            shutil.copyfile(companion, staged / companion.name)
        manifest = _manifest(name, checkpoint, graphs, staged, fingerprint)
        manifest.write(staged)
    return manifest, True


def fingerprint_of(checkpoint: Checkpoint, explain: bool = False, uint8: bool = False) -> str:
    """A hash over all that decides what an export looks like: weights, configuration, code and versions."""
    digest = hashlib.sha256(json.dumps(config_to_json(checkpoint.config), sort_keys=True).encode())
    digest.update(json.dumps({**_versions(), EXPLAINED: explain, "uint8": uint8}, sort_keys=True).encode())
    if checkpoint.folder is None:
        _add_weights(digest, checkpoint.model)
    for path in (*_checkpoint_files(checkpoint), *_source_files()):
        digest.update(sha256_of(path).encode())
    return digest.hexdigest()


def _add_weights(digest: Any, model: nn.Module) -> None:
    for name, tensor in model.state_dict().items():
        digest.update(name.encode())
        digest.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy())


def _checkpoint_files(checkpoint: Checkpoint) -> list[Path]:
    if checkpoint.folder is None:
        return list(checkpoint.code)
    return [checkpoint.folder / CONFIG_NAME, checkpoint.folder / WEIGHTS_NAME, *checkpoint.companions()]


def _source_files() -> list[Path]:
    folders = (_ROOT / "models", _ROOT / "export")
    files = (path for folder in folders for path in sorted(folder.rglob("*.py")))
    return [path for path in files if not _NOT_IN_GRAPHS & set(path.relative_to(_ROOT).parts)]


def _versions() -> dict[str, str]:
    return {package: importlib.metadata.version(package) for package in _PACKAGES}


def _current(out: Path, fingerprint: str) -> Manifest | None:
    try:
        manifest = Manifest.read(out)
        manifest.verify(out)
    except ArtefactError:
        return None
    return manifest if manifest.fingerprint == fingerprint else None


def _refuse_foreign(out: Path) -> None:
    if out.is_dir() and any(out.iterdir()) and not (out / MANIFEST_NAME).is_file():
        raise OutputError(
            f"an empty folder or an earlier export at {out}",
            "other files and no manifest.json",
            "choose another --out: this one would be replaced",
        )


def _export_graphs(name: str, checkpoint: Checkpoint, graphs: Sequence[TaskGraph], folder: Path) -> None:
    # One process a graph: a second dynamo export of an RNN in one process freezes its length.
    names = [graph.signature.name for graph in graphs]
    uint8 = takes_bytes(graphs[0].signature)
    calls = {graph: (name, graph, folder / f"{graph}.onnx", uint8) for graph in names}
    with progress(f"export {checkpoint.name}", len(names)) as advance:
        for graph in run_each(export_graph, calls):
            advance(f"{graph}.onnx")


def export_graph(name: str, graph_name: str, path: Path, uint8: bool = False) -> None:
    """Export one graph of a checkpoint; the work of one process."""
    graphs = checkpoint_named(name).graphs(graph_name == EXPLAINED, uint8)
    graph = next(graph for graph in graphs if graph.signature.name == graph_name)
    onnx_from_torch(graph, path)


def _manifest(
    name: str, checkpoint: Checkpoint, graphs: Sequence[TaskGraph], folder: Path, fingerprint: str
) -> Manifest:
    return Manifest(
        name=checkpoint.name,
        task=checkpoint.family.task.name,
        family=checkpoint.family.name,
        config=config_to_json(checkpoint.config),
        graphs=tuple(graph.signature for graph in graphs),
        files={path.name: sha256_of(path) for path in sorted(folder.iterdir())},
        details=checkpoint.serving_details(),
        example=_example(checkpoint, takes_bytes(graphs[0].signature)),
        versions=_versions(),
        source=name,
        fingerprint=fingerprint,
    )


def _example(checkpoint: Checkpoint, uint8: bool) -> dict[str, Any]:
    return example_in_bytes(checkpoint.example, checkpoint.details["preprocessing"]) if uint8 else checkpoint.example
