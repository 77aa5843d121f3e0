"""Tensors of a folder into a model of ours by the table of names alone, without the importer's other steps."""

import torch
from safetensors.torch import save_file

from models.checkpoints.blank import blank
from models.checkpoints.importers.pairing import canonical_names, fill_from, pair
from models.checkpoints.importers.reader import SINGLE_NAME, opened_tensors
from models.registry import FAMILIES


def filled_with(architecture, config, tensors, folder):
    """A model of ours with another's tensors, which are written to the folder in float32 first."""
    save_file({name: tensor.float().contiguous() for name, tensor in tensors.items()}, folder / SINGLE_NAME)
    ours = blank(lambda: FAMILIES[architecture.family].build(config))
    with opened_tensors(folder) as opened:
        pairing = pair(ours, architecture.origins(config), architecture, canonical_names(architecture, opened))
        fill_from(ours, pairing, opened, lambda name: None)
    return ours.eval().requires_grad_(False)


def shapes_of(architecture, config, tensors):
    """Our shapes, and those that the table of names makes of another's tensors; raises if one has no place.

    Args:
        architecture: of theirs.
        config: ours.
        tensors: theirs by name, which need no values.

    Returns:
        Two dictionaries by our names.
    """
    with torch.device("meta"):
        ours = FAMILIES[architecture.family].build(config)
    names = {architecture.canonical(name): name for name in tensors}
    pairing = pair(ours, architecture.origins(config), architecture, names)
    made = {name: origin.change(tensors[theirs[0]]).shape for name, (origin, theirs) in pairing.origins.items()}
    return {name: tensor.shape for name, tensor in ours.state_dict().items()}, made
