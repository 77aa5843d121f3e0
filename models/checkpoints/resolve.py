"""From what a user types to a model: a folder, a file of their own, a shipped checkpoint, or a preset."""

from functools import partial
from pathlib import Path

import torch

from attendant.errors import ArtefactError, unknown_name
from models.checkpoints.blank import blank
from models.checkpoints.custom_model import traced
from models.checkpoints.exported_program import load_program
from models.checkpoints.place import gguf_in, place_of, remedy_for, shipped_names
from models.checkpoints.store import Checkpoint, Weights, load_checkpoint
from models.presets import PRESETS
from models.registry import FAMILIES

PRESET_SEED = 0


def checkpoint_named(name: str, weights: Weights = "read") -> Checkpoint:
    """A model for a folder, a Python file, a ``.pt2`` file, a shipped checkpoint, or a preset with random weights.

    Args:
        name: any of them.
        weights: where a folder's model has them; a preset's may be ``absent``, and those of a file are its own.

    Raises:
        UnknownNameError: it is none of them.
        ArtefactError: the folder holds no whole checkpoint, or the file no model.
    """
    place = place_of(name)
    if place is not None:
        if gguf_in(place) is not None:
            remedy = f"import it: attendant models import {place} --out NEW_FOLDER"
            raise ArtefactError(f"a checkpoint of ours at {place}", "GGUF", remedy)
        if place.is_dir():
            return load_checkpoint(place, weights)
        with traced(str(place)) as program:
            return load_program(Path(program))
    if name in PRESETS:
        preset = PRESETS[name]
        family = FAMILIES[preset.family]
        build = partial(family.build, preset.config)
        with torch.random.fork_rng():
            torch.manual_seed(PRESET_SEED)
            model = blank(build) if weights == "absent" else build()
        return Checkpoint(name=name, family=family, model=model.eval().requires_grad_(False))
    raise unknown_name("model", name, (*shipped_names(), *PRESETS), remedy_for(name))
