"""The decoder's memory: keys and values of past positions in a tensor of fixed capacity, written in place.

    present[b, h, start[b] + i, :] = new[b, h, i, :]        for 0 ≤ i < S

Legend: B batch, H heads, S new positions, M capacity, D head size.
Source: ONNX operator specification, TensorScatter version 24 (mode ``linear``, axis −2).

The operation is one custom operator, so that the exporter can write it as the one ONNX node which runtimes execute
in place. In PyTorch it returns a new tensor, because a traced graph must be free of side effects.
"""

from __future__ import annotations

import torch
from torch import Tensor


@torch.library.custom_op("attendant::tensor_scatter", mutates_args=())
def tensor_scatter(cache: Tensor, new: Tensor, start: Tensor) -> Tensor:
    """Write new entries behind those that a cache already holds.

    Args:
        cache: ``[B, H, M, D]``.
        new: ``[B, H, S, D]``, of the cache's type.
        start: int64 ``[B]``, the first position that each row writes; ``start + S ≤ M``.

    Returns:
        The cache with the new entries in their places, ``[B, H, M, D]``.
    """
    positions_BS = start[:, None] + torch.arange(new.shape[2], device=new.device)
    index_BHSD = positions_BS[:, None, :, None].expand_as(new)
    return cache.scatter(2, index_BHSD, new)


@tensor_scatter.register_fake
def _(cache: Tensor, new: Tensor, start: Tensor) -> Tensor:
    return torch.empty_like(cache)
