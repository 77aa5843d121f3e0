"""Scaled dot-product attention over heads, and how to see what it attends to.

    Attention(Q, K, V) = A V        A = softmax(Q Kᵀ / √D + bias + mask)

The weights A exist, and are shown, only while somebody observes them: :class:`Attend`. What computes the sum can be
another kernel than torch's: :func:`attend_by`.

Legend: B batch, S query positions, T attended positions, H query heads, G key and value heads, D head size.
Source: Vaswani et al. 2017, "Attention Is All You Need", section 3.2.1.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.layers.rope import Rotation

Observer = Callable[[Tensor], None]
"""Told the weights of one call, ``[B, H, S, T]``; a row that sees nothing is zero."""

Kernel = Callable[[Tensor, Tensor, Tensor, Tensor | None, Tensor | None, float | None], Tensor]
"""What computes :func:`attend`, of its arguments in their order."""

Append = Callable[
    [Tensor, Tensor, Tensor, Rotation | None, tuple[Tensor, Tensor], Tensor, Tensor, float | None], Tensor | None
]
"""One step of self-attention: queries ``[B, H, S, D]``, new keys and values ``[B, G, S, D]``, none of them rotated,
their rotation, the caches ``[B, G, M, D]``, where each row writes ``[B]``, the mask and the scale → ``[B, H, S, D]``,
with the caches written; None, and nothing written, where it cannot."""


def attend(
    q_BHSD: Tensor,
    k_BGTD: Tensor,
    v_BGTD: Tensor,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    scale: float | None = None,
) -> Tensor:
    """Weighted sum of the values, one set of weights a query head.

    Args:
        q_BHSD: queries; H is a multiple of G.
        k_BGTD: keys.
        v_BGTD: values.
        mask: bool, broadcastable to ``[B, H, S, T]``, true where a query may attend; a query that may
            attend to nothing yields zeros.
        bias: added to the scaled scores, broadcastable to ``[B, H, S, T]``.
        scale: of the scores; 1/√D if not given.

    Returns:
        ``[B, H, S, D]``.
    """
    grouped = q_BHSD.shape[1] != k_BGTD.shape[1]
    if bias is None or mask is None:
        only = mask if bias is None else bias
        return F.scaled_dot_product_attention(q_BHSD, k_BGTD, v_BGTD, attn_mask=only, scale=scale, enable_gqa=grouped)
    # −∞ would make a row that sees nothing NaN; the least finite number makes its weights even, and zeros replace them.
    added = torch.where(mask, bias, torch.finfo(bias.dtype).min)
    heads_BHSD = F.scaled_dot_product_attention(
        q_BHSD, k_BGTD, v_BGTD, attn_mask=added, scale=scale, enable_gqa=grouped
    )
    return torch.where(mask.any(-1, keepdim=True), heads_BHSD, 0.0)


def attention_weights(
    q_BHSD: Tensor,
    k_BGTD: Tensor,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    scale: float | None = None,
) -> Tensor:
    """The weights that :func:`attend` mixes the values by, ``[B, H, S, T]``; the arguments are the same."""
    scores = (
        q_BHSD
        @ _repeat_heads(k_BGTD, q_BHSD.shape[1]).mT
        * (1 / math.sqrt(q_BHSD.shape[-1]) if scale is None else scale)
    )
    if bias is not None:
        scores = scores + bias
    if mask is None:
        return scores.softmax(-1)
    return torch.where(mask, scores, torch.finfo(scores.dtype).min).softmax(-1).masked_fill(~mask, 0)


class Attend(nn.Module):
    """:func:`attend` of one layer, which can be watched.

    Args:
        scale: of the scores; 1/√D if not given.

    Attributes:
        observer: told the weights of every call, if there is one.
        kernel: what computes the sum while nobody observes.
        is_watched_beside: whether it computes the sum all the same, and the weights are made for the observer alone.
        append: what may rotate, write the caches and attend at once, while nobody observes.
    """

    def __init__(self, scale: float | None = None) -> None:
        super().__init__()
        self.scale = scale
        self.observer: Observer | None = None
        self.kernel: Kernel = attend
        self.is_watched_beside = False
        self.append: Append | None = None

    def forward(
        self, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None = None, bias: Tensor | None = None
    ) -> Tensor:
        if self.observer is None:
            return self.kernel(queries, keys, values, mask, bias, self.scale)
        weights_BHST = attention_weights(queries, keys, mask, bias, self.scale)
        self.observer(weights_BHST)
        if self.is_watched_beside:
            return self.kernel(queries, keys, values, mask, bias, self.scale)
        return weights_BHST @ _repeat_heads(values, queries.shape[1])


def attend_by(module: nn.Module, kernel: Kernel) -> None:
    """Let every layer inside a module attend by a kernel; and append by its method of that name, if it has one."""
    for part in module.modules():
        if isinstance(part, Attend):
            part.kernel, part.append = kernel, getattr(kernel, "append", None)


def attend_in_groups(
    q_BHSD: Tensor,
    k_BGTD: Tensor,
    v_BGTD: Tensor,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    scale: float | None = None,
) -> Tensor:
    """:func:`attend` without asking torch for grouped heads: of its GPU kernels, none takes groups and a mask.

    Of a single position, query heads that share keys become the query positions of one head, and nothing is repeated.
    """
    heads, groups = q_BHSD.shape[1], k_BGTD.shape[1]
    for_all_heads = bias is None and (mask is None or mask.shape[1] == 1)
    if heads == groups or q_BHSD.shape[2] != 1 or not for_all_heads:
        return attend(q_BHSD, _repeat_heads(k_BGTD, heads), _repeat_heads(v_BGTD, heads), mask, bias, scale)
    shared_BGRD = q_BHSD.reshape(len(q_BHSD), groups, heads // groups, -1)
    return attend(shared_BGRD, k_BGTD, v_BGTD, mask, None, scale).reshape_as(q_BHSD)


def _repeat_heads(shared_BGTD: Tensor, heads: int) -> Tensor:
    repeats = heads // shared_BGTD.shape[1]
    return shared_BGTD if repeats == 1 else shared_BGTD.repeat_interleave(repeats, dim=1)
