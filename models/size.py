"""How large a model is: its parameters, and the work of one request, counted without weights or memory.

A multiplication with an addition is one operation (MAC); only matrix products and convolutions count, as the published
figures have it.
"""

from collections import Counter
from dataclasses import dataclass

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from models.presets.preset import Preset
from models.registry import family_named

OPERATIONS_A_MAC = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Of one model.

    Attributes:
        parameters: trained numbers, shared ones counted once.
        gmac: 10⁹ MACs of one request of ordinary size: one image, or 128 tokens (of source and of target).
    """

    parameters: int
    gmac: float


@torch.no_grad()
def size_of(preset: Preset) -> Size:
    """The size of a preset; the model is built on the meta device, which has no memory."""
    family = family_named(preset.family)
    with torch.device("meta"), FlopCounterMode(display=False) as counter:
        model = family.build(preset.config).eval()
        model(*family.graph_builder.typical_inputs(preset.config))
    gmac = counter.get_total_flops() / OPERATIONS_A_MAC / 1e9
    return Size(parameters=parts_of(model).total(), gmac=gmac)


def parts_of(model: nn.Module) -> Counter[str]:
    """How many parameters each direct part of a model has."""
    parts: Counter[str] = Counter()
    for name, parameter in model.named_parameters():
        parts[name.partition(".")[0]] += parameter.numel()
    return parts
