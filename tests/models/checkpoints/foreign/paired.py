"""Tensors of a folder into a model of ours by the table of names alone, without the importer's other steps."""

from safetensors.torch import save_file

from models.checkpoints.blank import blank
from models.checkpoints.foreign.pairing import canonical_names, fill_from, pair
from models.checkpoints.foreign.reader import SINGLE_NAME, opened_tensors
from models.families.registry import FAMILIES


def filled_with(architecture, config, tensors, folder):
    """A model of ours with another's tensors, which are written to the folder in float32 first."""
    save_file({name: tensor.float().contiguous() for name, tensor in tensors.items()}, folder / SINGLE_NAME)
    ours = blank(lambda: FAMILIES[architecture.family].build(config))
    with opened_tensors(folder) as opened:
        pairing = pair(ours, architecture.origins(config), architecture, canonical_names(architecture, opened))
        fill_from(ours, pairing, opened, lambda name: None)
    return ours.eval().requires_grad_(False)
