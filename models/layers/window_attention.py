"""Attention among the places of a window, with a bias for their offset.

    Attention(Q, K, V) = softmax(Q Kᵀ / √D + bias[offset] + mask) V in every window

The windows stand in the axis of the heads: the bias of an offset and the mask of shifted windows are then one tensor
that does not depend on the image, a constant of an exported graph. Who observes ``attend`` is told weights
``[B, W·H, S, S]``: window by window, in each head by head. ``windows.join`` lays them over the map, for every place
the weights of the S places of its window:

    windows.join(weights.unflatten(1, (W, H)).transpose(2, 3).flatten(3)): [B, h, w, H·S]

Legend: B batch, h and w height and width of a map, E model width, W windows, S places of a window, H heads, D head
size.
Source: Liu et al. 2021, "Swin Transformer", section 3.2, equation 4; Liu et al. 2022, "Swin Transformer V2", section
3.2 (cosine).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from models.config import require
from models.layers.attend import Attend
from models.layers.cosine_attention import ScaledCosine
from models.layers.windows import Windows


class WindowAttention(nn.Module):
    """Cut a map into windows, attend in each, and join them.

    Args:
        width: E.
        heads: H.
        windows: how the map is cut.
        position_bias: called without arguments, the bias ``[H, S, S]`` of every query and key of a window.
        cosine: how queries and keys are changed so that their product is the score; Q Kᵀ / √D if not given.
        key_bias: whether the projection of the keys has a bias; those of queries and values have one.

    Raises:
        ConfigError: the width is not a multiple of the heads.
    """

    mask: Tensor | None

    def __init__(
        self,
        width: int,
        heads: int,
        windows: Windows,
        position_bias: nn.Module,
        cosine: ScaledCosine | None = None,
        key_bias: bool = True,
    ) -> None:
        super().__init__()
        require(width % heads == 0, f"a width that is a multiple of {heads} heads", width)
        self.heads, self.windows = heads, windows
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width, bias=key_bias)
        self.value = nn.Linear(width, width)
        self.output = nn.Linear(width, width)
        self.position_bias = position_bias
        self.cosine = cosine
        self.attend = Attend(scale=None if cosine is None else 1.0)
        self.register_buffer("mask", windows.mask() if windows.shift else None, persistent=False)

    def forward(self, grid: Tensor) -> Tensor:
        """``[B, h, w, E]`` → ``[B, h, w, E]``."""
        windows_BWSE = self.windows.cut(grid)
        q, k, v = (self._split(project(windows_BWSE)) for project in (self.query, self.key, self.value))
        if self.cosine is not None:
            q, k = self.cosine(q, k)
        attended = self.attend(q.flatten(1, 2), k.flatten(1, 2), v.flatten(1, 2), bias=self._bias())
        joined_BWSE = attended.unflatten(1, (-1, self.heads)).transpose(2, 3).flatten(3)
        return self.windows.join(self.output(joined_BWSE))

    def _split(self, x_BWSE: Tensor) -> Tensor:
        windows, places, width = x_BWSE.shape[1:]
        return x_BWSE.reshape(-1, windows, places, self.heads, width // self.heads).transpose(2, 3)

    def _bias(self) -> Tensor:
        bias_WHSS: Tensor = self.position_bias().expand(self.windows.count, -1, -1, -1)
        if self.mask is not None:
            # A place always sees itself, so that no row of the softmax is empty.
            bias_WHSS = torch.where(self.mask[:, None], bias_WHSS, torch.finfo(bias_WHSS.dtype).min)
        return bias_WHSS.flatten(0, 1)[None]
