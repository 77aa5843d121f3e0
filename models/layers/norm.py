"""Normalise each token over its features, with or without centring it first.

    layer: (x − mean(x)) / √(var(x) + ε) · g + b        rms: x / √(mean(x²) + ε) · g        mean and var over E

Legend: B batch, S positions, E model width; g and b are learned, one number a feature.
Source: Ba et al. 2016, "Layer Normalization", equation 4; Zhang and Sennrich 2019, "Root Mean Square Layer
Normalization", equation 4 (ε as in its code).
"""

from typing import Literal, get_args

from torch import nn

Norm = Literal["layer", "rms"]
NORMS: tuple[Norm, ...] = get_args(Norm)
_KINDS: dict[Norm, type[nn.LayerNorm | nn.RMSNorm]] = {"layer": nn.LayerNorm, "rms": nn.RMSNorm}


def norm(kind: Norm, width: int, eps: float) -> nn.Module:
    """The normalisation of ``[B, S, E]`` over E; its scale is ``weight``, its shift (layer alone) ``bias``."""
    return _KINDS[kind](width, eps=eps)
