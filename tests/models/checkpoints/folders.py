"""Checkpoint folders of tiny models for the tests of this room."""

import json
from pathlib import Path

import torch

from models.checkpoints.file_names import CONFIG_NAME
from models.checkpoints.store import Checkpoint, save_checkpoint
from models.presets import PRESETS
from models.registry import family_named
from tests.models.agreement import randomised

TINY = sorted(name for name in PRESETS if name.endswith("-tiny"))


def tiny_checkpoint(preset: str, name: str = "a-model") -> Checkpoint:
    """A model with random weights and something in every field."""
    family, config = family_named(PRESETS[preset].family), PRESETS[preset].config
    torch.manual_seed(0)
    model = randomised(family.build(config), torch.float32)
    return Checkpoint(
        name=name, family=family, model=model, details={"labels": ["é", "b"]}, example={"text": "x", "answer": 1.5}
    )


def written_folder(folder: Path, preset: str = "vit-tiny") -> Path:
    """A whole checkpoint on disk."""
    save_checkpoint(tiny_checkpoint(preset), folder)
    return folder


def rewrite_config(folder: Path, **changes: object) -> None:
    """Change top-level values of ``config.json``; None takes one out."""
    path = folder / CONFIG_NAME
    value = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({key: item for key, item in value.items() if item is not None}))
