"""What the kernel of flash_attention computes, in plain PyTorch: every score at once.

Legend: B batch, S queries, M capacity of keys, H query heads, G key and value heads, D head size.
"""

from __future__ import annotations

import torch
from torch import Tensor


def flash_attention_reference(
    queries: Tensor, keys: Tensor, values: Tensor, lengths: Tensor, causal: bool = False, scale: float | None = None
) -> Tensor:
    """As :func:`models.kernels.flash_attention.flash_attention`, in float32 or better, rounded once at the end."""
    precise = torch.promote_types(queries.dtype, torch.float32)
    repeats = queries.shape[1] // keys.shape[1]
    k_BHMD, v_BHMD = (x.to(precise).repeat_interleave(repeats, dim=1) for x in (keys, values))
    factor = queries.shape[-1] ** -0.5 if scale is None else scale
    scores_BHSM = queries.to(precise) @ k_BHMD.mT * factor
    seen_B1SM = visible_keys(lengths, queries.shape[2], keys.shape[2], causal)
    weights_BHSM = scores_BHSM.masked_fill(~seen_B1SM, -torch.inf).softmax(-1).nan_to_num(0)
    unread_B1M1 = ~visible_keys(lengths, 1, keys.shape[2], causal=False).mT
    return (weights_BHSM @ v_BHMD.masked_fill(unread_B1M1, 0)).to(queries.dtype)


def visible_keys(lengths: Tensor, queries: int, capacity: int, causal: bool) -> Tensor:
    """Which keys each query sees: bool ``[B, 1, S, M]``."""
    t_M = torch.arange(capacity, device=lengths.device)
    length_B111 = lengths[:, None, None, None]
    if not causal:
        return (t_M < length_B111).expand(-1, -1, queries, -1)
    s_S1 = torch.arange(queries, device=lengths.device)[:, None]
    return (t_M < length_B111) & (t_M <= s_S1 + length_B111 - queries)
