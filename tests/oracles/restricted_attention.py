"""Restricted self-attention: each position looks at its neighbours alone, and no other score is computed.

    y_i = Σ_{|j − i| ≤ r} softmax_j(q_i · k_j / √D) v_j        O(r n D) instead of O(n² D)

Legend: B batch, H heads, S positions, D head size, W = 2r + 1 neighbours.
Source: Vaswani et al. 2017, section 4 and table 1, where r counts the whole neighbourhood; the same numbers as full
attention under :func:`band_mask`.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from attendant.config import require


def restricted_attend(q_BHSD: Tensor, k_BHSD: Tensor, v_BHSD: Tensor, radius: int) -> Tensor:
    """Weighted sum of the neighbours' values.

    Args:
        q_BHSD: queries.
        k_BHSD: keys, as many as queries.
        v_BHSD: values.
        radius: r, how far a position looks in either direction.

    Returns:
        ``[B, H, S, D]``.

    Raises:
        ConfigError: the radius is negative.
    """
    require(radius >= 0, "a radius of zero or more", radius)
    scores_BHSW = (q_BHSD[..., None, :] @ _neighbours(k_BHSD, radius))[..., 0, :] / math.sqrt(q_BHSD.shape[-1])
    positions_S = torch.arange(q_BHSD.shape[2], device=q_BHSD.device)
    neighbour_SW = positions_S[:, None] + torch.arange(-radius, radius + 1, device=q_BHSD.device)
    inside_SW = (neighbour_SW >= 0) & (neighbour_SW < len(positions_S))
    weights_BHSW = scores_BHSW.masked_fill(~inside_SW, -torch.inf).softmax(-1)
    return (_neighbours(v_BHSD, radius) @ weights_BHSW[..., None])[..., 0]


def _neighbours(x_BHSD: Tensor, radius: int) -> Tensor:
    padded = F.pad(x_BHSD, (0, 0, radius, radius))
    return padded.unfold(2, 2 * radius + 1, 1)  # [B, H, S, D, W]


def band_mask(length: int, radius: int, device: torch.device | None = None) -> Tensor:
    """Restricted self-attention: no position sees further than a radius, in either direction.

    Returns:
        bool ``[1, 1, length, length]``.

    Raises:
        ConfigError: the radius is negative.
    """
    require(radius >= 0, "a radius of zero or more", radius)
    positions_S = torch.arange(length, device=device)
    distance_SS = positions_S[:, None] - positions_S
    return (distance_SS.abs() <= radius)[None, None]
