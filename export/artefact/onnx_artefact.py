"""Everything that torch does for an artefact: graphs, companions and a manifest in one folder.

Apart from :mod:`export.artefact.stage`, which decides whether there is anything to do and does not wait for torch.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from torch import Tensor, nn

from attendant.folders import replaced_folder
from attendant.manifest import Manifest
from attendant.progress import progress
from attendant.tensor_names import EXPLAINED
from export.artefact.description import describe, signatures_of
from export.artefact.fingerprint import Option, require_unchanged
from export.artefact.own_process import run_each
from export.artefact.reproduction import write_reproduction
from export.graph.onnx_graph import onnx_from_torch, origins_of
from export.passes.lowering import lowered_graphs
from export.precision.precisions import PRECISIONS, Precision, precision_named, require_task, signatures_in
from export.precision.rewriting import Given, rewrite_graphs, weight_types
from models.checkpoints.resolve import checkpoint_named
from models.checkpoints.store import Checkpoint
from models.task_graph import TaskGraph
from models.tasks.from_bytes import takes_bytes


def write_artefact(
    name: str, out: Path, options: Mapping[str, Option], fingerprint: str, exported: Path | None = None
) -> Manifest:
    """Export every graph of a checkpoint, whatever the folder holds.

    Args:
        name: as the user typed it.
        out: the artefact's folder; replaced in one step.
        options: flag of ``export onnx`` → value.
        fingerprint: for the manifest.
        exported: the same in fp32, if that is there already.

    Raises:
        As :func:`export.artefact.stage.export_onnx`.
    """
    precision, explain = precision_named(str(options["precision"])), bool(options["explain"])
    # The graphs' own processes hold the weights: here they would take as much memory once more.
    checkpoint = checkpoint_named(name, weights="read" if explain or precision.calibrated else "absent")
    require_task(precision, checkpoint.family.task.name)
    graphs = checkpoint.graphs(explain, bool(options["uint8"]))
    with replaced_folder(out) as staged:
        passes = _write_graphs(name, checkpoint, graphs, precision, staged, options, exported)
        for companion in checkpoint.companions():
            shutil.copyfile(companion, staged / companion.name)
        lowered = lowered_graphs(staged, (graph.signature for graph in graphs)) if precision.ort_cpu else ()
        manifest = replace(
            describe(name, checkpoint, graphs, precision, staged, fingerprint),
            lowered=lowered,
            passes=passes,
            weights={graph.signature.name: _weights(checkpoint, graph, staged) for graph in graphs},
            types={path.stem: weight_types(path) for path in (staged / f"{one.signature.name}.onnx" for one in graphs)},
        )
        write_reproduction(staged, manifest, options)
        require_unchanged(name, options, fingerprint)
        manifest.write(staged)
    return manifest


def _write_graphs(
    name: str,
    checkpoint: Checkpoint,
    graphs: Sequence[TaskGraph],
    precision: Precision,
    folder: Path,
    options: Mapping[str, Option],
    exported: Path | None,
) -> dict[str, list[dict[str, Any]]]:
    if precision is PRECISIONS["fp32"]:
        _export_graphs(name, checkpoint, graphs, folder)
        return {}
    with _float32_graphs(name, checkpoint, graphs, folder, exported) as float32:
        every, calibration = signatures_of(graphs), options.get("calibration")
        samples = Path(str(calibration)) if calibration else None
        given = [
            Given(
                checkpoint=checkpoint,
                folder=float32,
                signature=wanted,
                float32=plain,
                calibration=samples,
                every=every,
            )
            for wanted, plain in zip(signatures_in(precision, every), every, strict=True)
        ]
        done = rewrite_graphs(precision, given, folder)
    return {graph: [outcome.to_json() for outcome in outcomes] for graph, outcomes in done.items()}


@contextmanager
def _float32_graphs(
    name: str, checkpoint: Checkpoint, graphs: Sequence[TaskGraph], folder: Path, exported: Path | None
) -> Iterator[Path]:
    if exported is not None:
        yield exported
        return
    with TemporaryDirectory(dir=folder) as made:
        _export_graphs(name, checkpoint, graphs, Path(made))
        yield Path(made)


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
    graphs = checkpoint_named(name, weights="mapped").graphs(graph_name == EXPLAINED, uint8)
    graph = next(graph for graph in graphs if graph.signature.name == graph_name)
    onnx_from_torch(graph, path)


def _weights(checkpoint: Checkpoint, graph: TaskGraph, folder: Path) -> dict[str, list[str]]:
    names = {id(tensor): name for name, tensor in _tensors(checkpoint.model)}
    own = {name: names.get(id(tensor), name) for name, tensor in _tensors(graph.module)}
    found = origins_of(folder / f"{graph.signature.name}.onnx").items()
    return {weight: [own.get(name, name) for name in read] for weight, read in found}


def _tensors(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    yield from module.named_parameters(remove_duplicate=False)
    yield from module.named_buffers(remove_duplicate=False)
