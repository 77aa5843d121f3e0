"""Presets on the torch runner with a kernel of attention, and decodes of them, for comparisons."""

import copy
from dataclasses import replace

import numpy as np
import torch

from export.graph.axes import axes_of
from models.checkpoints.resolve import checkpoint_named
from serving.runtime.cached_decoder import CachedDecoder
from serving.runtime.torch.runner import TorchRunner


def runners(preset, attention, recorder=None, device="cpu"):
    made = {}
    for graph in checkpoint_named(preset).graphs():
        signature = replace(graph.signature, axes=axes_of(graph))
        given = signature, copy.deepcopy(graph.module), torch.device(device), torch.float32, graph.below
        made[signature.name] = TorchRunner(*given, recorder=recorder, attention=attention)
    return made


def decoded(runner, memories=None, rows=2):
    """Logits of a prompt, of a later part and of two single steps."""
    decoder, start, logits = CachedDecoder(runner, rows, memories), np.array([0] * rows), []
    for steps in (3, 2, 1, 1):
        tokens = (np.arange(rows * steps).reshape(rows, steps) + 5) % 20
        logits.append(decoder.step(tokens, start)["logits"])
        start = start + steps
    return logits


def recurrent_steps(preset, attention, recorder=None, device="cpu"):
    """Logits and alignments of two steps of a recurrent decoder over a padded source."""
    made, mask = runners(preset, attention, recorder, device), np.array([[True] * 4, [True] * 2 + [False] * 2])
    source = {"source_ids": np.arange(8).reshape(2, 4), "source_mask": mask}
    read = {name: buffer.numpy() for name, buffer in made["encoder"].run(source).items()}
    decoder, found = made["decoder"], []
    states = {name: decoder.allocate(name, {"batch": 2}) for name in decoder.signature.aliases.values()}
    for name, state in states.items():
        state.write(read[name.removesuffix("_in")])
    given = {"source_mask": mask, **states, **{name: read[name] for name in read if f"{name}_in" not in states}}
    for token in (1, 3):
        stepped = decoder.run({"token_ids": np.full((2, 1), token), **given})
        found += [stepped[name].numpy() for name in ("logits", "alignment")]
    return found


def worst(found, wanted):
    return max(float(np.abs(one - other).max()) for one, other in zip(found, wanted, strict=True))
