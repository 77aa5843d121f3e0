"""What the kernel of decode_append_attention computes, in plain PyTorch: rotate, write, attend.

Legend: B batch, S new positions, M capacity, H query heads, G key and value heads, D head size.
"""

from __future__ import annotations

import torch
from torch import Tensor

from models.kernels.flash_attention_reference import flash_attention_reference
from models.layers.rope import Rotation


def decode_append_attention_reference(
    queries: Tensor,
    new_keys: Tensor,
    new_values: Tensor,
    rotation: Rotation | None,
    caches: tuple[Tensor, Tensor],
    start: Tensor,
    scale: float | None = None,
) -> Tensor:
    """As :func:`models.kernels.decode_append_attention.decode_append_attention`, in float32 or better; writes too."""
    q_BHSD, k_BGSD = (_rotate(x, rotation) for x in (queries, new_keys))
    for cache_BGMD, new_BGSD in zip(caches, (k_BGSD, new_values), strict=True):
        for row, position in enumerate(start.tolist()):
            kept = min(new_BGSD.shape[2], cache_BGMD.shape[2] - position)
            cache_BGMD[row, :, position : position + kept] = new_BGSD[row, :, :kept]
    # Rows that overflow the capacity have queries that see all of it, as if the cache went on.
    lengths = start + queries.shape[2]
    return flash_attention_reference(q_BHSD, *caches, lengths, causal=True, scale=scale)


def _rotate(x_BHSD: Tensor, rotation: Rotation | None) -> Tensor:
    if rotation is None:
        return x_BHSD
    precise = torch.promote_types(x_BHSD.dtype, torch.float32)
    return rotation.apply(x_BHSD.to(precise)).to(x_BHSD.dtype)
