"""Who may look at whom: every mask is bool, true where a query may attend, and masks join by ``&``.

    causal: key ≤ query              padding: the key is a token
    window w: query − key < w

A query that may attend to nothing yields zeros (:func:`models.layers.attend.attend`), never NaN.

Legend: B batch, S query positions, T key positions.
Source: Vaswani et al. 2017, section 3.1 (causal); Beltagy et al. 2020, "Longformer", section 3.1, and Jiang et al.
2023, "Mistral 7B", section 2 (sliding window).
"""

import torch
from torch import Tensor

from attendant.config import require


def causal_mask(length: int, device: torch.device | None = None) -> Tensor:
    """No position sees its future: bool ``[1, 1, length, length]``."""
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()[None, None]


def key_mask(valid: Tensor, queries: int) -> Tensor:
    """Turn a padding mask over keys, bool ``[B, T]``, into an attention mask, bool ``[B, 1, S, T]``.

    The query axis is written out: ONNX Runtime's Attention does not broadcast it (1.31, ``attention_helper.h``).
    """
    return valid[:, None, None, :].expand(-1, -1, queries, -1)


def window_mask(query_positions: Tensor, key_positions: Tensor, window: int) -> Tensor:
    """No position sees further back than a window, itself included; the future is the causal mask's business.

    Args:
        query_positions: int64 ``[B, S]``.
        key_positions: int64 ``[T]``.
        window: number of positions that a query sees, at least 1.

    Returns:
        bool ``[B, 1, S, T]``.

    Raises:
        ConfigError: the window is empty.
    """
    require(window >= 1, "a window of at least one position", window)
    distance_BST = query_positions[:, :, None] - key_positions
    return (distance_BST < window)[:, None]
