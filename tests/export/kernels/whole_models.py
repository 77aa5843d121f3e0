"""Presets on the torch runner with a kernel of attention, and decodes of them, for comparisons."""

import copy
from dataclasses import replace

import numpy as np
import torch

from export.axes import axes_of
from models.checkpoints.resolve import checkpoint_named
from serving.runtime.cached_decoder import CachedDecoder
from serving.runtime.torch_runner import TorchRunner


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


def worst(found, wanted):
    return max(float(np.abs(one - other).max()) for one, other in zip(found, wanted, strict=True))
