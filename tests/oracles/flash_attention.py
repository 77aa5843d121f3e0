"""Exact attention, tile by tile: no matrix of all scores ever exists.

    for each tile of queries: m = −∞, l = 0, O = 0, and for each tile of keys and values
        S = scale · Q Kᵀ, −∞ where masked        m′ = max(m, rowmax S)        P = exp(S − m′)
        l ← e^(m − m′) l + rowsum P              O ← e^(m − m′) O + P V       m ← m′
    output = O / l        logsumexp = m + ln l

Legend: B batch, S query positions, T key positions, H query heads, G key and value heads, R = H / G, D head size.
Source: Dao et al. 2022, "FlashAttention: Fast and Memory-Efficient Exact Attention with IO-Awareness", algorithm 1; Dao
2023, "FlashAttention-2", algorithm 1 (queries in the outer loop, one division at the end, the logarithm kept).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from attendant.config import require


class Running(NamedTuple):
    """What a tile of s queries has seen: maximum and sum ``[B, G, R, s, 1]``, weighted values ``[B, G, R, s, D]``."""

    maximum: Tensor
    total: Tensor
    weighted: Tensor


def flash_attend(
    q_BHSD: Tensor,
    k_BGTD: Tensor,
    v_BGTD: Tensor,
    mask: Tensor | None = None,
    scale: float | None = None,
    query_tile: int = 64,
    key_tile: int = 64,
) -> tuple[Tensor, Tensor]:
    """Weighted sum of the values, and the logarithm of the sum that the weights were divided by.

    Args:
        q_BHSD: queries; H is a multiple of G, and query head h attends with key and value head ⌊h G / H⌋.
        k_BGTD: keys.
        v_BGTD: values; their heads may have another size.
        mask: bool, broadcastable to ``[B, H, S, T]``, true where a query may attend; a query that may attend to
            nothing yields zeros, and −∞ as its logarithm.
        scale: of the scores; 1/√D if not given.
        query_tile: most queries at a time.
        key_tile: most keys at a time.

    Returns:
        ``[B, H, S, D]`` in the queries' type, and ``[B, H, S]`` in float32 or better.

    Raises:
        ConfigError: a tile is empty, or the query heads are no multiple of the key heads.
    """
    heads, groups = q_BHSD.shape[1], k_BGTD.shape[1]
    require(query_tile > 0 and key_tile > 0, "tiles of at least one position", (query_tile, key_tile))
    require(heads % groups == 0, f"query heads that are a multiple of {groups} key heads", heads)
    precise = torch.promote_types(q_BHSD.dtype, torch.float32)
    q_BGRSD = torch.unflatten(q_BHSD.to(precise) * _scale(q_BHSD, scale), 1, (groups, heads // groups))
    k_BG1TD, v_BG1TD = k_BGTD[:, :, None].to(precise), v_BGTD[:, :, None].to(precise)
    mask_BGRST = _grouped(mask, q_BHSD, k_BGTD)
    tiles = [
        _finished(_attend_tile(q_tile, k_BG1TD, v_BG1TD, mask_tile, key_tile))
        for q_tile, mask_tile in _tiles(query_tile, 3, q_BGRSD, mask_BGRST)
    ]
    output_BGRSD, logsumexp_BGRS1 = (torch.cat(parts, dim=3) for parts in zip(*tiles, strict=True))
    return output_BGRSD.flatten(1, 2).to(q_BHSD.dtype), logsumexp_BGRS1.flatten(1, 2).squeeze(-1)


def _attend_tile(q_tile: Tensor, keys: Tensor, values: Tensor, mask: Tensor, key_tile: int) -> Running:
    edge = (*q_tile.shape[:-1], 1)
    running = Running(
        q_tile.new_full(edge, -torch.inf), q_tile.new_zeros(edge), q_tile.new_zeros((*edge[:-1], values.shape[-1]))
    )
    for k_tile, v_tile, mask_tile in _tiles(key_tile, -1, keys.mT, values.mT, mask):
        scores = (q_tile @ k_tile).masked_fill(~mask_tile, -torch.inf)
        running = _add(running, scores, v_tile.mT)
    return running


def _tiles(size: int, axis: int, *tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    return zip(*(torch.split(tensor, size, axis) for tensor in tensors), strict=True)


def _add(running: Running, scores: Tensor, values: Tensor) -> Running:
    # The maximum cancels out of the result, so that no gradient need flow through it.
    maximum = torch.maximum(running.maximum, scores.amax(-1, keepdim=True)).detach()
    weights = (scores - _finite(maximum)).exp()
    shrink = rescale(running.maximum, maximum)
    total = shrink * running.total + weights.sum(-1, keepdim=True)
    return Running(maximum, total, shrink * running.weighted + weights @ values)


def rescale(before: Tensor, after: Tensor) -> Tensor:
    """The factor e^(before − after) that turns sums taken under an old maximum into sums under a new one."""
    return (before - _finite(after)).exp()


def _finite(maximum: Tensor) -> Tensor:
    return maximum.masked_fill(maximum == -torch.inf, 0)  # a row that has seen nothing: −∞ − −∞ would be NaN


def _finished(running: Running) -> tuple[Tensor, Tensor]:
    seen_nothing = running.total == 0
    output = running.weighted / running.total.masked_fill(seen_nothing, 1)
    return output, running.maximum + running.total.log()


def _scale(q_BHSD: Tensor, scale: float | None) -> float:
    return q_BHSD.shape[-1] ** -0.5 if scale is None else scale


def _grouped(mask: Tensor | None, q_BHSD: Tensor, k_BGTD: Tensor) -> Tensor:
    batch, heads, queries, _ = q_BHSD.shape
    groups, keys = k_BGTD.shape[1:3]
    if mask is None:
        mask = q_BHSD.new_ones((), dtype=torch.bool)
    return torch.unflatten(mask.expand(batch, heads, queries, keys), 1, (groups, heads // groups))
