"""Climb the parity ladder of an exported artefact: eager float64 → eager float32 → ONNX Runtime, over many cases."""

from __future__ import annotations

from pathlib import Path

import torch

from export.climbs import CLIMBS, REFERENCE, RUNTIME, Runners
from export.eager import eager_runners
from export.parity import YARDSTICK, Measurement
from models.checkpoints.resolve import checkpoint_named
from models.checkpoints.store import Checkpoint
from models.config import config_to_json
from models.errors import ArtefactError
from models.manifest import Manifest
from models.tasks.from_bytes import takes_bytes
from models.tensor_names import EXPLAINED
from serving.runtime.ort_runner import ort_runners

SMALL_MODEL = 10_000_000


def climb(folder: Path, source: str | None = None) -> list[Measurement]:
    """Compare an artefact's graphs with the model they were made from.

    Args:
        folder: the artefact.
        source: the checkpoint, if not the one that the manifest names.

    Returns:
        One measurement for each case and runner.

    Raises:
        ArtefactError: a file is not what the manifest says, or the checkpoint has another configuration.
    """
    manifest = Manifest.read(folder)
    manifest.verify(folder)
    checkpoint = checkpoint_named(source or manifest.source)
    _require_same_model(checkpoint, manifest)
    if sum(parameter.numel() for parameter in checkpoint.model.parameters()) < SMALL_MODEL:
        torch.set_num_threads(1)  # more threads make a toy model up to 20 times slower where cores are shared
    names = [signature.name for signature in manifest.graphs]
    graphs = checkpoint.graphs(EXPLAINED in names, takes_bytes(manifest.graphs[0]))
    exported = ort_runners(folder, manifest)
    runners: Runners = {
        REFERENCE: dict(eager_runners(graphs, torch.float64)),
        YARDSTICK: dict(eager_runners(graphs, torch.float32)),
        RUNTIME: {name: exported[name] for name in names},
    }
    return list(CLIMBS[manifest.task](checkpoint, runners))


def _require_same_model(checkpoint: Checkpoint, manifest: Manifest) -> None:
    wanted = manifest.name, manifest.family, manifest.config
    found = checkpoint.name, checkpoint.family.name, config_to_json(checkpoint.config)
    if wanted != found:
        raise ArtefactError(
            f"the checkpoint that the artefact was made from: {wanted}",
            str(found),
            "name the right one with --source, or export again",
        )
