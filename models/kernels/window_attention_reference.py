"""What the kernel of window_attention computes, in plain PyTorch: roll, cut, attend, join, roll back.

Legend: B batch, h and w sides of a map, C = H D channels, H heads, D head size, N windows, P places of a window.
"""

from __future__ import annotations

import torch
from torch import Tensor

from models.layers.relative_position_2d import offset_of_pair


def window_attention_reference(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    table: Tensor,
    window: int,
    shift: int = 0,
    scales: Tensor | None = None,
    scale: float | None = None,
) -> Tensor:
    """As :func:`models.kernels.window_attention.window_attention`, in float32 or better, rounded once at the end."""
    precise = torch.promote_types(queries.dtype, torch.float32)
    height, width = queries.shape[1:3]
    q, k, v = (_cut(x.to(precise), window, shift, table.shape[0]) for x in (queries, keys, values))
    if scales is not None:
        lengths = [torch.linalg.vector_norm(x, dim=-1, keepdim=True).clamp(min=1e-4) for x in (q, k)]
        scores_BNHPP = (q / lengths[0]) @ (k / lengths[1]).mT * scales.to(precise)[:, None, None]
    else:
        scores_BNHPP = q @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    scores_BNHPP = scores_BNHPP + table.to(precise)[:, offset_of_pair(window).to(table.device)]
    region_NP = _cut(_regions(height, width, shift).to(q.device), window, 0, 1)[0, :, 0, :, 0]
    seen_N1PP = (region_NP[:, :, None] == region_NP[:, None, :])[:, None]
    attended_BNHPD = scores_BNHPP.masked_fill(~seen_N1PP, -torch.inf).softmax(-1) @ v
    return _join(attended_BNHPD, height, width, window, shift).to(queries.dtype)


def _regions(height: int, width: int, shift: int) -> Tensor:
    over_h, over_w = torch.arange(height) >= height - shift, torch.arange(width) >= width - shift
    return (2 * over_h[:, None].long() + over_w)[None, :, :, None]


def _cut(x_BhwC: Tensor, window: int, shift: int, heads: int) -> Tensor:
    rolled = x_BhwC.roll((-shift, -shift), dims=(1, 2))
    batch, height, width, channels = rolled.shape
    cut = rolled.reshape(batch, height // window, window, width // window, window, heads, channels // heads)
    return cut.permute(0, 1, 3, 5, 2, 4, 6).flatten(4, 5).flatten(1, 2)


def _join(x_BNHPD: Tensor, height: int, width: int, window: int, shift: int) -> Tensor:
    batch, _, heads, _, size = x_BNHPD.shape
    cut = x_BNHPD.reshape(batch, height // window, width // window, heads, window, window, size)
    return cut.permute(0, 1, 4, 2, 5, 3, 6).reshape(batch, height, width, heads * size).roll((shift, shift), (1, 2))
