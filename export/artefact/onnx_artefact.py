"""Everything that torch does for an artefact: graphs, companions and a manifest in one folder.

Apart from :mod:`export.artefact.stage`, which decides whether there is anything to do and does not wait for torch.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from torch import Tensor, nn

from attendant.folders import replaced_folder
from attendant.manifest import Manifest
from attendant.progress import progress
from attendant.tensor_names import EXPLAINED, PREFILL
from export.artefact.companions import copy_companions
from export.artefact.description import describe, signatures_of
from export.artefact.fingerprint import Option, require_unchanged
from export.artefact.own_process import run_each
from export.artefact.reproduction import write_reproduction
from export.artefact.source import Source
from export.graph.exported_graph import ExportedGraph
from export.graph.onnx_graph import onnx_from_torch
from export.precision.kept import kept_matrices
from export.precision.precisions import PRECISIONS, precision_named, require_task
from export.precision.rewriting import lower_graphs, rewrite_graphs, weights_only_for_tensorrt
from models.checkpoints.resolve import checkpoint_named
from models.checkpoints.store import Checkpoint
from models.task_graph import TaskGraph
from models.tasks.from_bytes import takes_bytes


def write_artefact(
    source: Source, out: Path, options: Mapping[str, Option], fingerprint: str, exported: Path | None = None
) -> Manifest:
    """Export every graph of a checkpoint, whatever the folder holds.

    Args:
        source: what it is made of.
        out: the artefact's folder; replaced in one step.
        options: flag of ``export onnx`` → value.
        fingerprint: for the manifest.
        exported: the same in fp32, if that is there already.

    Raises:
        As :func:`export.artefact.stage.export_onnx`.
    """
    precision, explain = precision_named(str(options["precision"])), bool(options["explain"])
    # The graphs' own processes hold the weights: here they would take as much memory once more.
    checkpoint = checkpoint_named(source.loaded, weights="read" if explain or precision.calibrated else "absent")
    prefill = precision_named(str(options["prefill"])) if options.get("prefill") else None
    require_task(precision, checkpoint.family.task.name)
    tasks = checkpoint.graphs(explain, bool(options["uint8"]), prefill is not None)
    samples = Path(str(options["calibration"])) if options.get("calibration") else None
    with replaced_folder(out) as staged:
        copy_companions(checkpoint, staged)
        with ExitStack() as stack:
            folder = exported
            if precision is PRECISIONS["fp32"]:
                folder = staged
            elif folder is None:
                folder = Path(stack.enter_context(TemporaryDirectory(dir=staged)))
            if folder != exported:
                _export_graphs(source.loaded, checkpoint, tasks, folder)
            float32 = [ExportedGraph.read(folder, signature) for signature in signatures_of(tasks)]
            kept = {
                graph.name: kept_matrices(checkpoint, _parameters(checkpoint, task, graph))
                for graph, task in zip(float32, tasks, strict=True)
            }
            sources = weights_only_for_tensorrt(precision, float32, kept)
            graphs = rewrite_graphs(precision, checkpoint, folder, float32, samples, kept, prefill)
            for graph in graphs if folder != staged else ():
                graph.write(staged)
            lowered = lower_graphs(graphs, staged, precision, sources)
        manifest = replace(
            describe(source.name, checkpoint, [graph.signature for graph in graphs], precision, staged, fingerprint),
            lowered=tuple(lowered),
            passes={graph.name: [one.to_json() for one in graph.passes] for graph in graphs if graph.passes},
            weights={
                graph.name: _parameters(checkpoint, task, graph) for graph, task in zip(graphs, tasks, strict=True)
            },
            types={graph.name: graph.weight_types() for graph in graphs},
        )
        write_reproduction(staged, manifest, options)
        require_unchanged(source.loaded, options, fingerprint)
        manifest.write(staged)
    return manifest


def _export_graphs(name: str, checkpoint: Checkpoint, graphs: Sequence[TaskGraph], folder: Path) -> None:
    # One process a graph: a second dynamo export of an RNN in one process freezes its length.
    names = [graph.signature.name for graph in graphs]
    uint8 = takes_bytes(graphs[0].signature)
    calls = {graph: (name, graph, folder, uint8) for graph in names}
    with progress(f"export {checkpoint.name}", len(names)) as advance:
        for graph in run_each(export_graph, calls):
            advance(f"{graph}.onnx")


def export_graph(name: str, graph_name: str, folder: Path, uint8: bool = False) -> None:
    """Export one graph of a checkpoint; the work of one process."""
    graphs = checkpoint_named(name, weights="mapped").graphs(graph_name == EXPLAINED, uint8, graph_name == PREFILL)
    graph = next(graph for graph in graphs if graph.signature.name == graph_name)
    onnx_from_torch(graph).write(folder)


def _parameters(checkpoint: Checkpoint, task: TaskGraph, graph: ExportedGraph) -> dict[str, list[str]]:
    # A graph's module may call a parameter otherwise than the checkpoint does.
    names = {id(tensor): name for name, tensor in _tensors(checkpoint.model)}
    own = {name: names.get(id(tensor), name) for name, tensor in _tensors(task.module)}
    return {weight: [own.get(name, name) for name in read] for weight, read in graph.origins.items()}


def _tensors(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    yield from module.named_parameters(remove_duplicate=False)
    yield from module.named_buffers(remove_duplicate=False)
