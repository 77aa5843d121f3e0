"""What every artefact's manifest says, whatever its form: graphs, files, what serving needs, and where it is from."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from attendant.config import config_to_json
from attendant.manifest import ROUNDED, Manifest
from attendant.signature import GraphSignature
from export.artefact.fingerprint import versions
from export.artefact.remembered_hashes import remembered_sha256
from export.graph.axes import axes_of
from export.precision.precisions import Precision
from models.checkpoints.store import Checkpoint
from models.task_graph import TaskGraph
from models.tasks.from_bytes import example_in_bytes, takes_bytes


def describe(
    name: str,
    checkpoint: Checkpoint,
    signatures: Sequence[GraphSignature],
    precision: Precision,
    folder: Path,
    fingerprint: str,
) -> Manifest:
    """The manifest of an artefact, but for what a form adds to it.

    Args:
        name: of the checkpoint, as the user typed it.
        checkpoint: that it was made from.
        signatures: of its graphs.
        precision: of their numbers.
        folder: that holds every file of it.
        fingerprint: of the export.
    """
    return Manifest(
        name=checkpoint.name,
        task=checkpoint.family.task.name,
        family=checkpoint.family.name,
        config=config_to_json(checkpoint.config),
        graphs=tuple(signatures),
        files={path.name: remembered_sha256(path) for path in sorted(folder.iterdir())},
        details=checkpoint.serving_details(),
        example=_example(checkpoint, takes_bytes(signatures[0]), precision),
        versions=versions(),
        **precision.in_manifest(),
        source=name,
        fingerprint=fingerprint,
    )


def signatures_of(graphs: Sequence[TaskGraph]) -> tuple[GraphSignature, ...]:
    """The signatures of graphs in float32, with the sizes of their axes."""
    return tuple(replace(graph.signature, axes=axes_of(graph)) for graph in graphs)


def _example(checkpoint: Checkpoint, uint8: bool, precision: Precision) -> dict[str, Any]:
    asked = checkpoint.example
    task = checkpoint.family.task
    if task.name in precision.reworded and "answer" in asked:
        rounded = {**asked, "within": ROUNDED}
        asked = rounded if task.answers == "values" else {"inputs": asked["inputs"]}
    return example_in_bytes(asked, checkpoint.details["preprocessing"]) if uint8 else asked
