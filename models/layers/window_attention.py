"""Attention among the places of a window, with a bias for their offset.

    Attention(Q, K, V) = softmax(Q Kᵀ / √D + bias[offset] + mask) V in every window

The windows stand in the axis of the heads: the bias of an offset and the mask of shifted windows are then one tensor
that does not depend on the image, a constant of an exported graph. Who observes ``attend`` is told weights
``[B, W·H, S, S]``: window by window, in each head by head. ``windows.join`` lays them over the map, for every place
the weights of the S places of its window:

    windows.join(weights.unflatten(1, (W, H)).transpose(2, 3).flatten(3)): [B, h, w, H·S]

A kernel (:func:`attend_in_windows_by`) reads the map as it lies: projections are of each place by itself, so that they
may stand before the cut.

Legend: B batch, h and w height and width of a map, E model width, W windows, S places of a window, H heads, D head
size, O = (2M − 1)² offsets in windows of side M.
Source: Liu et al. 2021, "Swin Transformer", section 3.2, equation 4; Liu et al. 2022, "Swin Transformer V2", section
3.2 (cosine).
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from attendant.config import require
from models.layers.attend import Attend
from models.layers.continuous_position_bias import ContinuousPositionBias
from models.layers.cosine_attention import ScaledCosine
from models.layers.padding import pad_map
from models.layers.relative_position_2d import OffsetBias
from models.layers.windows import Windows

WindowKernel = Callable[[Tensor, Tensor, Tensor, Tensor, int, int, Tensor | None], Tensor | None]
"""What attends on a whole map: of queries, keys and values ``[B, h, w, E]``, whose sides are multiples of a window's,
the biases ``[H, O]``, the side and the shift of the windows, and, where scores are cosines, their scales ``[H]``; it
returns ``[B, h, w, E]``, or None where there is no kernel for them."""


class WindowAttention(nn.Module):
    """Cut a map into windows, attend in each, and join them.

    Args:
        width: E.
        heads: H.
        windows: how the map is cut.
        position_bias: the biases of all offsets of a query and a key in a window.
        cosine: how queries and keys are changed so that their product is the score; Q Kᵀ / √D if not given.
        query_bias: whether the projections of queries and values have biases.
        key_bias: whether that of the keys has one.

    Attributes:
        kernel: what attends while nobody observes, if it can; the windows are cut where there is none.

    Raises:
        ConfigError: the width is not a multiple of the heads.
    """

    mask: Tensor | None

    def __init__(
        self,
        width: int,
        heads: int,
        windows: Windows,
        position_bias: OffsetBias | ContinuousPositionBias,
        cosine: ScaledCosine | None = None,
        query_bias: bool = True,
        key_bias: bool = True,
    ) -> None:
        super().__init__()
        require(width % heads == 0, f"a width that is a multiple of {heads} heads", width)
        self.heads, self.windows = heads, windows
        self.query = nn.Linear(width, width, bias=query_bias)
        self.key = nn.Linear(width, width, bias=key_bias)
        self.value = nn.Linear(width, width, bias=query_bias)
        self.output = nn.Linear(width, width)
        self.position_bias = position_bias
        self.cosine = cosine
        self.attend = Attend(scale=None if cosine is None else 1.0)
        self.kernel: WindowKernel | None = None
        self.register_buffer("mask", windows.mask() if windows.shift else None, persistent=False)

    def forward(self, grid: Tensor) -> Tensor:
        """``[B, h, w, E]`` → ``[B, h, w, E]``."""
        if self.kernel is not None and self.attend.observer is None:
            on_map = self._on_map(grid, self.kernel)
            if on_map is not None:
                return on_map
        windows_BWSE = self.windows.cut(grid)
        q, k, v = (self._split(project(windows_BWSE)) for project in (self.query, self.key, self.value))
        if self.cosine is not None:
            q, k = self.cosine(q, k)
        attended = self.attend(q.flatten(1, 2), k.flatten(1, 2), v.flatten(1, 2), bias=self._bias())
        joined_BWSE = attended.unflatten(1, (-1, self.heads)).transpose(2, 3).flatten(3)
        return self.windows.join(self.output(joined_BWSE))

    def _on_map(self, grid: Tensor, kernel: WindowKernel) -> Tensor | None:
        cut, padded_BhwE = self.windows, pad_map(grid, self.windows.size)
        q, k, v = (project(padded_BhwE) for project in (self.query, self.key, self.value))
        scales_H = None if self.cosine is None else self.cosine.scales().flatten()
        attended_BhwE = kernel(q, k, v, self.position_bias.table(), cut.size, cut.shift, scales_H)
        if attended_BhwE is None:
            return None
        projected: Tensor = self.output(attended_BhwE[:, : cut.side, : cut.side])
        return projected

    def _split(self, x_BWSE: Tensor) -> Tensor:
        windows, places, width = x_BWSE.shape[1:]
        return x_BWSE.reshape(-1, windows, places, self.heads, width // self.heads).transpose(2, 3)

    def _bias(self) -> Tensor:
        bias_WHSS: Tensor = self.position_bias().expand(self.windows.count, -1, -1, -1)
        if self.mask is not None:
            # A place always sees itself, so that no row of the softmax is empty.
            bias_WHSS = torch.where(self.mask[:, None], bias_WHSS, torch.finfo(bias_WHSS.dtype).min)
        return bias_WHSS.flatten(0, 1)[None]


def attend_in_windows_by(module: nn.Module, kernel: WindowKernel | None) -> None:
    """Let every layer inside a module that attends in windows do so by a kernel, or by :class:`Attend` if None."""
    for part in module.modules():
        if isinstance(part, WindowAttention):
            part.kernel = kernel
