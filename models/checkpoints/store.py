"""A checkpoint folder: ``config.json``, ``model.safetensors``, and the files that the task needs beside them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn

from models.config import config_from_json, config_to_json
from models.errors import ArtefactError
from models.families.registry import Family, family_named
from models.tokenization import TOKENIZER_NAME

CONFIG_NAME = "config.json"
WEIGHTS_NAME = "model.safetensors"
COMPANIONS = (TOKENIZER_NAME,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A model with all that is known about it.

    Attributes:
        name: its name everywhere: folder, manifest, Triton.
        family: its architecture.
        model: the module, in evaluation mode, float32.
        details: what serving needs to know: labels, preprocessing.
        example: one request and its right answer.
        folder: where it was read from; none for a preset with random weights.
    """

    name: str
    family: Family
    model: nn.Module
    details: dict[str, Any] = field(default_factory=dict)
    example: dict[str, Any] = field(default_factory=dict)
    folder: Path | None = None

    @property
    def config(self) -> Any:
        """The architecture's configuration."""
        return self.model.config

    def companions(self) -> tuple[Path, ...]:
        """The files beside the weights that later stages need."""
        return tuple(self.folder / name for name in COMPANIONS if (self.folder / name).is_file()) if self.folder else ()


def save_checkpoint(checkpoint: Checkpoint, folder: Path) -> None:
    """Write weights and configuration; companions are written by whoever makes them."""
    folder.mkdir(parents=True, exist_ok=True)
    save_file(checkpoint.model.state_dict(), folder / WEIGHTS_NAME)
    value = {
        "name": checkpoint.name,
        "family": checkpoint.family.name,
        "config": config_to_json(checkpoint.config),
        "details": checkpoint.details,
        "example": checkpoint.example,
    }
    (folder / CONFIG_NAME).write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


def load_checkpoint(folder: Path) -> Checkpoint:
    """Read a checkpoint folder.

    Raises:
        ArtefactError: a file is missing or damaged, or the weights are not this configuration's.
        ConfigError: the configuration is rejected.
        UnknownNameError: the family is unknown.
    """
    value = _read_config(folder / CONFIG_NAME)
    family = family_named(value["family"])
    model = family.build(config_from_json(family.config, value["config"]))
    _load_weights(model, folder / WEIGHTS_NAME)
    return Checkpoint(
        name=value["name"],
        family=family,
        model=model.eval().requires_grad_(False),
        details=value["details"],
        example=value["example"],
        folder=folder,
    )


def _read_config(path: Path) -> dict[str, Any]:
    try:
        value: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ArtefactError(
            f"a checkpoint's configuration at {path}", str(error), "name a checkpoint folder"
        ) from error
    parts = ("name", "family", "config", "details", "example")
    missing = [part for part in parts if not isinstance(value, dict) or part not in value]
    if missing:
        raise ArtefactError(f"a complete configuration at {path}", f"no {missing}", "write the checkpoint again")
    return value


def _load_weights(model: nn.Module, path: Path) -> None:
    remedy = "copy the file again, or train it with `python -m models train <name>`"
    try:
        weights = load_file(path)
    except (OSError, SafetensorError) as error:
        raise ArtefactError(f"a whole safetensors file at {path}", str(error), remedy) from error
    wanted = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    found = {name: tuple(tensor.shape) for name, tensor in weights.items()}
    if wanted != found:
        different = sorted(name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name))
        raise ArtefactError(
            f"the tensors of the configuration in {path}",
            f"{len(different)} that differ in name or shape, first {different[:3]}",
            "pair the weights with their own config.json",
        )
    model.load_state_dict(weights)
