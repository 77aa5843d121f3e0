"""Multi-head scaled dot-product attention, and the masks that say who may look at whom.

    Attention(Q, K, V) = softmax(Q Kᵀ / √D + mask) V        MultiHead = Concat(head_1 … head_H) W_O

Legend: B batch, S query positions, T attended positions, H heads, D head size, E model width.
Source: Vaswani et al. 2017, "Attention Is All You Need", sections 3.2.1 and 3.2.2.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.errors import ConfigError


def causal_mask(length: int, device: torch.device | None = None) -> Tensor:
    """Who may look at whom when no position sees its future.

    Returns:
        bool ``[1, 1, length, length]``, true where the query may attend: key ≤ query.
    """
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()[None, None]


def key_mask(valid: Tensor, queries: int) -> Tensor:
    """Turn a padding mask over keys, bool ``[B, T]``, into an attention mask, bool ``[B, 1, S, T]``.

    The query axis is written out: ONNX Runtime's Attention does not broadcast it (1.31, ``attention_helper.h``).
    """
    return valid[:, None, None, :].expand(-1, -1, queries, -1)


def attend(q_BHSD: Tensor, k_BHTD: Tensor, v_BHTD: Tensor, mask: Tensor | None = None) -> Tensor:
    """Weighted sum of the values, one set of weights a head.

    Args:
        q_BHSD: queries.
        k_BHTD: keys.
        v_BHTD: values.
        mask: bool, broadcastable to ``[B, H, S, T]``, true where a query may attend; a query that may
            attend to nothing yields zeros.

    Returns:
        ``[B, H, S, D]``.
    """
    return F.scaled_dot_product_attention(q_BHSD, k_BHTD, v_BHTD, attn_mask=mask)


class MultiHeadAttention(nn.Module):
    """Project, attend in every head, join the heads and project again.

    The two halves are public because a cached decoder keeps the keys and values between calls.

    Raises:
        ConfigError: the width is not a multiple of the number of heads.
    """

    def __init__(self, width: int, heads: int, bias: bool = True) -> None:
        super().__init__()
        if width % heads:
            raise ConfigError(
                f"a width that is a multiple of {heads} heads", str(width), "change the width or the number of heads"
            )
        self.heads = heads
        self.query = nn.Linear(width, width, bias=bias)
        self.key = nn.Linear(width, width, bias=bias)
        self.value = nn.Linear(width, width, bias=bias)
        self.output = nn.Linear(width, width, bias=bias)

    def keys_and_values(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """Project a source ``[B, T, E]`` to keys and values, each ``[B, H, T, D]``."""
        return self._split(self.key(source)), self._split(self.value(source))

    def attend_to(self, inputs: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
        """Attend from inputs ``[B, S, E]`` to projected keys and values ``[B, H, T, D]``; returns ``[B, S, E]``."""
        heads_BHSD = attend(self._split(self.query(inputs)), keys, values, mask)
        joined_BSE: Tensor = self.output(heads_BHSD.transpose(1, 2).flatten(2))
        return joined_BSE

    def forward(self, inputs: Tensor, source: Tensor, mask: Tensor | None = None) -> Tensor:
        """Attend from inputs ``[B, S, E]`` to a source ``[B, T, E]``; the mask is as in :func:`attend`."""
        return self.attend_to(inputs, *self.keys_and_values(source), mask)

    def _split(self, x_BSE: Tensor) -> Tensor:
        batch, length, width = x_BSE.shape
        return x_BSE.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
