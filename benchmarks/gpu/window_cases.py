"""Attention of one Swin or SwinV2 block between its projections: ours on the map as it lies, libraries' in cut windows.

The library's route cuts the map, attends with the bias and mask of all pairs, and joins; ours is held to all of that.

Legend: B batch, H heads, D head size, W windows, P places of a window.
"""

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention.flex_attention import flex_attention

from benchmarks.gpu.cases import Call, Case, draw
from models.kernels.window_attention import window_attention
from models.layers.relative_position_2d import offset_of_pair
from models.layers.windows import Windows

_SHORTEST = 1e-4


def windows(
    batch: int,
    side: int,
    heads: int,
    size: int,
    window: int,
    shift: int,
    device: torch.device,
    cosine: bool = False,
    compiles: bool = True,
) -> Case:
    """One block's attention over a map of ``side``².

    Args:
        batch: B.
        side: of the map.
        heads: H.
        size: D.
        window: side of a window.
        shift: of the windows.
        device: of the tensors.
        cosine: SwinV2's scores.
        compiles: whether FlexAttention, and the whole route once more, go through torch.compile.
    """
    generator = torch.Generator(device).manual_seed(0)
    grids = draw((3, batch, side, side, heads * size), generator)
    table_HO = draw((heads, (2 * window - 1) ** 2), generator)
    scales_H = torch.linspace(5, 20, heads, device=device) if cosine else None
    q, k, v = grids.unbind()
    if compiles:
        torch._dynamo.reset()  # each case is compiled for its own sizes
    route = CutAndJoin(grids, table_HO, Windows(side, window, shift), scales_H, compiles)
    return Case(
        kind="windows",
        name=f"B {batch}, {side}×{side}, H {heads}, D {size}, W {window}, shift {shift}{', cosines' * cosine}",
        ours=lambda: window_attention(q, k, v, table_HO, window, shift, scales_H),
        rivals=route.calls(),
        flops=4 * batch * side**2 * window**2 * heads * size,
        moved_bytes=2 * 4 * batch * side**2 * heads * size,
    )


class CutAndJoin:
    """The libraries' route over fixed tensors."""

    def __init__(self, grids: Tensor, table_HO: Tensor, cut: Windows, scales_H: Tensor | None, compiles: bool) -> None:
        self._grids, self._cut, self._scales, self._compiles = grids, cut, scales_H, compiles
        self._heads, self._table = len(table_HO), table_HO
        self._pairs = offset_of_pair(cut.size).to(grids.device)
        self._seen = cut.mask().to(grids.device)
        self._bias = torch.where(self._seen[:, None], table_HO[:, self._pairs], -torch.inf).contiguous()
        self._flex = torch.compile(flex_attention, dynamic=False) if compiles else flex_attention

    def calls(self) -> dict[str, Call]:
        """Library's name → the route by it."""
        plain = {"cut, SDPA, join": self.by_sdpa, "cut, FlexAttention, join": self.by_flex_attention}
        if not self._compiles:
            return plain
        return plain | {"the first by torch.compile": torch.compile(self.by_sdpa, dynamic=False)}

    def by_sdpa(self) -> Tensor:
        """One bias for all images: the windows stand in the axis of the heads."""
        q, k, v = (x.flatten(1, 2) for x in self._in_heads())
        bias = self._bias.flatten(0, 1)[None]
        attended = F.scaled_dot_product_attention(q, k, v, attn_mask=bias, scale=self._scale())
        return self._join_windows(attended.unflatten(1, (-1, self._heads)))

    def by_flex_attention(self) -> Tensor:
        """Bias and mask by index: the windows stand in the batch."""
        q, k, v = (x.flatten(0, 1) for x in self._in_heads())
        attended = self._flex(q, k, v, score_mod=self._score, scale=self._scale())
        assert isinstance(attended, Tensor)
        return self._join_windows(attended.unflatten(0, (-1, self._cut.count)))

    def _score(self, score: Tensor, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        biased = score + self._table[head, self._pairs[query, key]]
        return torch.where(self._seen[batch % self._cut.count, query, key], biased, -torch.inf)

    def _scale(self) -> float | None:
        return None if self._scales is None else 1.0

    def _in_heads(self) -> list[Tensor]:
        cut = (self._cut.cut(grid) for grid in self._grids)
        q, k, v = (x.unflatten(-1, (self._heads, -1)).transpose(2, 3).contiguous() for x in cut)
        if self._scales is None:
            return [q, k, v]
        q = F.normalize(q, dim=-1, eps=_SHORTEST) * self._scales[:, None, None].to(q.dtype)
        return [q, F.normalize(k, dim=-1, eps=_SHORTEST), v]

    def _join_windows(self, attended_BWHPD: Tensor) -> Tensor:
        return self._cut.join(attended_BWHPD.transpose(2, 3).flatten(3))
