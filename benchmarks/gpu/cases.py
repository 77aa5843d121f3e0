"""What is timed: calls of our kernels and of the libraries that compute the same, on the same tensors.

Legend: B batch, H query heads, G key and value heads, S queries, M cached positions, D head size, W side of a window.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.flex_attention import flex_attention

from export.kernels.decode_attention import decode_attention
from export.kernels.decode_tiles import splits_for
from export.kernels.flash_attention import flash_attention
from export.kernels.window_attention import window_attention
from models.layers.relative_position_2d import offset_of_pair
from models.layers.windows import Windows

Call = Callable[[], Tensor]
BACKENDS = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "cuDNN": SDPBackend.CUDNN_ATTENTION,
    "memory-efficient": SDPBackend.EFFICIENT_ATTENTION,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One question.

    Attributes:
        kind: prefill, decode or windows: what decides about the target.
        name: with its sizes.
        ours: our kernel.
        rivals: library's name → the same by it; a call that raises RuntimeError says that it cannot.
        flops: multiplications and additions that the result takes.
        moved_bytes: that must come from memory or go to it.
        cached: positions behind which it decodes; 0 if it does not.
    """

    kind: str
    name: str
    ours: Call
    rivals: Mapping[str, Call]
    flops: int
    moved_bytes: int
    cached: int = 0


def prefill(batch: int, heads: int, kv_heads: int, length: int, size: int, causal: bool, device: str) -> Case:
    """All positions of rows of one length."""
    q, k, v = _attention_inputs(batch, heads, kv_heads, length, length, size, device)
    lengths = torch.full((batch,), length, dtype=torch.int32, device=device)
    pairs = length * (length + 1) // 2 if causal else length**2
    return Case(
        kind="prefill",
        name=f"{'causal' if causal else 'full'}, B {batch}, H {heads}/{kv_heads}, S {length}, D {size}",
        ours=lambda: flash_attention(q, k, v, lengths, causal=causal),
        rivals={name: _library(name, q, k, v, causal) for name in BACKENDS},
        flops=4 * batch * heads * pairs * size,
        moved_bytes=2 * (2 * q.numel() + 2 * k.numel()),
    )


def decode(batch: int, heads: int, kv_heads: int, cached: int, size: int, multiprocessors: int, device: str) -> Case:
    """One new position behind caches of one length."""
    q, k, v = _attention_inputs(batch, heads, kv_heads, 1, cached, size, device)
    lengths = torch.full((batch,), cached, dtype=torch.int32, device=device)
    splits = splits_for(batch * kv_heads, cached, multiprocessors)
    return Case(
        kind="decode",
        name=f"B {batch}, H {heads}/{kv_heads}, M {cached}, D {size}, {splits} splits",
        ours=lambda: decode_attention(q, k, v, lengths, splits=splits),
        rivals={name: _library(name, q, k, v, causal=False) for name in BACKENDS},
        flops=4 * batch * heads * cached * size,
        moved_bytes=2 * 2 * k.numel(),
        cached=cached,
    )


def windows(batch: int, side: int, heads: int, size: int, window: int, shift: int, compiles: bool, device: str) -> Case:
    """Attention of one Swin block between its projections, on the map as it lies."""
    generator = torch.Generator().manual_seed(0)
    grids = torch.randn(3, batch, side, side, heads * size, generator=generator).half().to(device)
    table_HO = torch.randn(heads, (2 * window - 1) ** 2, generator=generator).half().to(device)
    cut = Windows(side, window, shift)
    libraries = _WindowLibraries(grids, table_HO, cut, heads, compiles)
    places = window**2
    return Case(
        kind="windows",
        name=f"B {batch}, {side}×{side}, H {heads}, D {size}, W {window}, shift {shift}",
        ours=lambda: window_attention(*grids.unbind(), table_HO, window, shift),
        rivals={"cut, SDPA, join": libraries.by_sdpa, "cut, FlexAttention, join": libraries.by_flex_attention},
        flops=4 * batch * side**2 * places * heads * size,
        moved_bytes=2 * 4 * batch * side**2 * heads * size,
    )


class _WindowLibraries:
    def __init__(self, grids: Tensor, table_HO: Tensor, cut: Windows, heads: int, compiles: bool) -> None:
        self.grids, self.cut, self.heads = grids, cut, heads
        self.table, self.pairs = table_HO, offset_of_pair(cut.size).to(grids.device)
        self.seen = cut.mask().to(grids.device)
        bias_HPP = table_HO[:, self.pairs]
        self.bias = torch.where(self.seen[:, None], bias_HPP, -torch.inf).contiguous()
        self.flex = torch.compile(flex_attention) if compiles else flex_attention

    def by_sdpa(self) -> Tensor:
        # One bias for all images: the windows stand in the axis of the heads.
        q, k, v = (x.flatten(1, 2) for x in self._heads())
        attended = F.scaled_dot_product_attention(q, k, v, attn_mask=self.bias.flatten(0, 1)[None])
        return self._joined(attended.unflatten(1, (-1, self.heads)))

    def by_flex_attention(self) -> Tensor:
        q, k, v = (x.flatten(0, 1) for x in self._heads())
        attended = self.flex(q, k, v, score_mod=self._score)
        assert isinstance(attended, Tensor)
        return self._joined(attended.unflatten(0, (-1, self.cut.count)))

    def _score(self, score: Tensor, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        biased = score + self.table[head, self.pairs[query, key]]
        return torch.where(self.seen[batch % self.cut.count, query, key], biased, -torch.inf)

    def _heads(self) -> list[Tensor]:
        cut = (self.cut.cut(grid) for grid in self.grids)
        return [x.unflatten(-1, (self.heads, -1)).transpose(2, 3).contiguous() for x in cut]

    def _joined(self, attended_BWHPD: Tensor) -> Tensor:
        return self.cut.join(attended_BWHPD.transpose(2, 3).flatten(3))


def _library(name: str, q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Call:
    def call() -> Tensor:
        with sdpa_kernel(BACKENDS[name]):
            return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=q.shape[1] != k.shape[1])

    return call


def _attention_inputs(
    batch: int, heads: int, kv_heads: int, queries: int, keys: int, size: int, device: str
) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = (heads, queries), (kv_heads, keys), (kv_heads, keys)
    return [torch.randn(batch, *shape, size, generator=generator).half().to(device) for shape in shapes]
