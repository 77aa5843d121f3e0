"""From what a user types to a model: a folder, a file of their own, a shipped checkpoint, or a preset."""

from functools import partial

import torch

from attendant.errors import unknown_name
from models.checkpoints.blank import blank
from models.checkpoints.custom_model import load_custom_model
from models.checkpoints.place import place_of, shipped_names
from models.checkpoints.store import Checkpoint, Weights, load_checkpoint
from models.presets import PRESETS
from models.registry import FAMILIES

PRESET_SEED = 0


def checkpoint_named(name: str, weights: Weights = "read") -> Checkpoint:
    """A model for a folder, a Python file, the name of a shipped checkpoint, or a preset's name with random weights.

    Args:
        name: any of them.
        weights: where a folder's model has them; a preset's may be ``absent``, and those of a Python file are its own.

    Raises:
        UnknownNameError: it is none of the four.
        ArtefactError: the folder holds no whole checkpoint.
    """
    place = place_of(name)
    if place is not None:
        return load_checkpoint(place, weights) if place.is_dir() else load_custom_model(place)
    if name in PRESETS:
        preset = PRESETS[name]
        family = FAMILIES[preset.family]
        build = partial(family.build, preset.config)
        with torch.random.fork_rng():
            torch.manual_seed(PRESET_SEED)
            model = blank(build) if weights == "absent" else build()
        return Checkpoint(name=name, family=family, model=model.eval().requires_grad_(False))
    remedy = "name one of `attendant models list`, a checkpoint's folder, or a Python file with a model"
    raise unknown_name("model", name, (*shipped_names(), *PRESETS), remedy)
