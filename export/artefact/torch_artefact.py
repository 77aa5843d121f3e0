"""An artefact that torch runs: the checkpoint in the precision's type, and the manifest that every artefact has."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import torch

from attendant.errors import ConfigError
from attendant.folders import replaced_folder
from attendant.manifest import Manifest
from export.artefact.companions import copy_companions
from export.artefact.description import describe, signatures_of
from export.artefact.fingerprint import Option, require_unchanged
from export.artefact.reproduction import write_reproduction
from export.artefact.source import Source
from export.precision.precisions import precision_named, signatures_in
from models.checkpoints.resolve import checkpoint_named
from models.checkpoints.store import save_checkpoint
from models.tasks.predict import ContractModel

_DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


def write_torch_artefact(source: Source, out: Path, options: Mapping[str, Option], fingerprint: str) -> Manifest:
    """Write a checkpoint, whatever the folder holds.

    Args:
        source: what it is made of.
        out: the artefact's folder; replaced in one step.
        options: flag of ``export torch`` → value.
        fingerprint: for the manifest.

    Raises:
        As :func:`export.artefact.stage.export_torch`.
    """
    checkpoint, precision = checkpoint_named(source.loaded), precision_named(str(options["precision"]))
    if isinstance(checkpoint.model, ContractModel):
        remedy = "export it with `attendant export onnx`"
        raise ConfigError("a model of a family, which its configuration can build", f"the file {source.name}", remedy)
    with replaced_folder(out) as staged:
        copy_companions(checkpoint, staged)
        checkpoint.model.to(_DTYPES[precision.memory])
        save_checkpoint(checkpoint, staged)
        signatures = signatures_in(precision, signatures_of(checkpoint.graphs()))
        manifest = replace(describe(source.name, checkpoint, signatures, precision, staged, fingerprint), form="torch")
        write_reproduction(staged, manifest, options)
        require_unchanged(source.loaded, options, fingerprint, "torch")
        manifest.write(staged)
    return manifest
