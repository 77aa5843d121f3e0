"""What the second kernel of decode_attention computes, in plain PyTorch: the weighted mean of the splits.

Both steps together are :func:`models.kernels.flash_attention_reference.flash_attention_reference`.

Legend: B batch, G key and value heads, R rows that share one, D head size, N splits.
"""

from __future__ import annotations

import torch
from torch import Tensor


def combine_splits_reference(parts: Tensor, bases: Tensor) -> Tensor:
    """Of means ``[B, G, N, R, D]`` and bases ``[B, G, N, R]`` the mean ``[B, G, R, D]``; zeros if all bases are −∞."""
    highest_BGR = bases.amax(2).nan_to_num(neginf=0)
    weights_BGNR = torch.exp2(bases - highest_BGR[:, :, None])
    total_BGR = weights_BGNR.sum(2)
    return (weights_BGNR[..., None] * parts).sum(2) / total_BGR.masked_fill(total_BGR == 0, 1)[..., None]
