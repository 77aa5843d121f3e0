"""From what a user types to a model: a folder, a file of their own, a shipped checkpoint, or a preset."""

from __future__ import annotations

import torch

from models.checkpoints.blank import blank
from models.checkpoints.own_model import load_own_model
from models.checkpoints.place import place_of, shipped_names
from models.checkpoints.store import Checkpoint, load_checkpoint
from models.errors import UnknownNameError
from models.families.registry import FAMILIES
from models.presets import PRESETS

PRESET_SEED = 0


def checkpoint_named(name: str, values: bool = True) -> Checkpoint:
    """A model for a folder, a Python file, the name of a shipped checkpoint, or a preset's name with random weights.

    Args:
        name: any of them.
        values: whether it gets its weights; without them it takes no memory, unless it is a Python file's.

    Raises:
        UnknownNameError: it is none of the four.
        ArtefactError: the folder holds no whole checkpoint.
    """
    place = place_of(name)
    if place is not None:
        return load_checkpoint(place, values) if place.is_dir() else load_own_model(place)
    if name in PRESETS:
        return _random_model(name, values)
    raise UnknownNameError(
        f"a checkpoint folder, a Python file, a shipped checkpoint {shipped_names()} or a preset {sorted(PRESETS)}",
        repr(name),
        "see `python -m models list`",
    )


def _random_model(name: str, values: bool) -> Checkpoint:
    preset = PRESETS[name]
    family = FAMILIES[preset.family]
    with torch.random.fork_rng():
        torch.manual_seed(PRESET_SEED)
        model = family.build(preset.config) if values else blank(lambda: family.build(preset.config))
    return Checkpoint(name=name, family=family, model=model.eval().requires_grad_(False))
