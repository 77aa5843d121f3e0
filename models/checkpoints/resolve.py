"""From what a user types to a model: a folder, a file of their own, a shipped checkpoint, or a preset."""

from __future__ import annotations

from pathlib import Path

import torch

from models.checkpoints.own_model import SUFFIX, load_own_model
from models.checkpoints.store import CONFIG_NAME, Checkpoint, load_checkpoint
from models.errors import UnknownNameError
from models.families.registry import FAMILIES
from models.presets import PRESETS

PRETRAINED = Path(__file__).parent.parent / "pretrained"
PRESET_SEED = 0


def shipped_names() -> list[str]:
    """The checkpoints that come with this repository."""
    return sorted(folder.name for folder in PRETRAINED.iterdir() if (folder / CONFIG_NAME).is_file())


def checkpoint_named(name: str) -> Checkpoint:
    """A model for a folder, a Python file, the name of a shipped checkpoint, or a preset's name with random weights.

    Raises:
        UnknownNameError: it is none of the four.
        ArtefactError: the folder holds no whole checkpoint.
    """
    if _is_folder(name):
        return load_checkpoint(Path(name))
    if name.endswith(SUFFIX) and Path(name).is_file():
        return load_own_model(Path(name))
    if name in shipped_names():
        return load_checkpoint(PRETRAINED / name)
    if name in PRESETS:
        return _random_model(name)
    raise UnknownNameError(
        f"a checkpoint folder, a Python file, a shipped checkpoint {shipped_names()} or a preset {sorted(PRESETS)}",
        repr(name),
        "see `python -m models list`",
    )


def _is_folder(name: str) -> bool:
    try:
        return Path(name).is_dir()
    except OSError:  # longer than any path can be
        return False


def _random_model(name: str) -> Checkpoint:
    preset = PRESETS[name]
    family = FAMILIES[preset.family]
    with torch.random.fork_rng():
        torch.manual_seed(PRESET_SEED)
        model = family.build(preset.config)
    return Checkpoint(name=name, family=family, model=model.eval().requires_grad_(False))
