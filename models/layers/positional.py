"""Where a token stands: fixed sinusoids, and the learned tables of the language and the vision models.

    s(pos, i) = sin(pos / 10000^(2i/E))        c(pos, i) = cos(pos / 10000^(2i/E))        0 ≤ i < E/2
    interleaved: s_0 c_0 s_1 c_1 …             concatenated: s_0 s_1 … c_0 c_1 …

Legend: B batch, S positions, P patches in rows and columns h and w, F tokens in front of them, E model width.
Source: Vaswani et al. 2017, section 3.5 (i starts at 0: the shortest wavelength is 2π), whose code, Tensor2Tensor, has
the concatenated layout, as has Marian; Radford et al. 2018, "Improving Language Understanding by Generative
Pre-Training", section 4.1, and Lewis et al. 2020, "BART" (learned tables); Dosovitskiy et al. 2021, equation 1 and
section 3.2 (other resolutions).
"""

import math
from typing import Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attendant.config import require

SinusoidLayout = Literal["interleaved", "concatenated"]


def sinusoids(length: int, width: int, layout: SinusoidLayout = "interleaved") -> Tensor:
    """The table of sines and cosines, float32 ``[length, width]``, computed in float64.

    Raises:
        ConfigError: there is no such layout.
    """
    require(layout in get_args(SinusoidLayout), f"a layout of {get_args(SinusoidLayout)}", repr(layout))
    position = torch.arange(length, dtype=torch.float64)[:, None]
    dimension = torch.arange(0, width, 2, dtype=torch.float64)[None]
    angle = position / 10000.0 ** (dimension / width)
    waves = [angle.sin(), angle.cos()]
    table = torch.cat(waves, dim=1) if layout == "concatenated" else torch.stack(waves, dim=-1).flatten(1)
    return table[:, :width].float()


class SinusoidalPositions(nn.Module):
    """Look positions up in the fixed table; it is recomputed at start and never stored."""

    table: Tensor

    def __init__(self, length: int, width: int, layout: SinusoidLayout = "interleaved") -> None:
        super().__init__()
        self.register_buffer("table", sinusoids(length, width, layout), persistent=False)

    def forward(self, positions: Tensor) -> Tensor:
        """Vectors of int64 positions ``[B, S]`` below the table's length: ``[B, S, E]``."""
        return F.embedding(positions, self.table)


class LearnedPositionTable(nn.Module):
    """Look positions up in a trained table.

    Args:
        length: number of positions.
        width: E.
        offset: rows before that of position 0, which nothing reads; BART's tables have two.
        deviation: standard deviation of the initial values.
    """

    def __init__(self, length: int, width: int, offset: int = 0, deviation: float = 0.02) -> None:
        super().__init__()
        self.offset = offset
        self.weight = nn.Parameter(torch.randn(length + offset, width) * deviation)

    def forward(self, positions: Tensor) -> Tensor:
        """Vectors of int64 positions ``[B, S]`` from 0 to below the length: ``[B, S, E]``."""
        return F.embedding(positions + self.offset, self.weight)


class LearnedPositions(nn.Module):
    """Add a trained vector to each of a fixed number of tokens.

    Args:
        length: number of tokens.
        width: E.
        deviation: standard deviation of the initial values.
    """

    def __init__(self, length: int, width: int, deviation: float) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(1, length, width) * deviation)

    def forward(self, tokens: Tensor) -> Tensor:
        """Add the table to tokens ``[B, length, E]``."""
        return tokens + self.table


def resized_positions(table: Tensor, tokens_in_front: int, grid: tuple[int, int]) -> Tensor:
    """A learned table of patch positions for images of another size, interpolated as an image of E channels.

    Bicubic (a = −3/4) between the centres of patches, without the smoothing that some libraries add when it shrinks.

    Args:
        table: ``[1, tokens_in_front + P, E]``, its P patches row by row in a square.
        tokens_in_front: of the class token and its like, whose rows stay.
        grid: rows and columns of patches that are wanted.

    Returns:
        ``[1, tokens_in_front + rows · columns, E]``.

    Raises:
        ConfigError: the patches of the table are no square.
    """
    front_1FE, patches_1PE = table[:, :tokens_in_front], table[:, tokens_in_front:]
    side = math.isqrt(patches_1PE.shape[1])
    require(side > 0 and side**2 == patches_1PE.shape[1], "positions of a square of patches", patches_1PE.shape[1])
    image_1Ehw = patches_1PE.transpose(1, 2).reshape(1, -1, side, side)
    resized_1Ehw = F.interpolate(image_1Ehw, size=grid, mode="bicubic", align_corners=False)
    return torch.cat([front_1FE, resized_1Ehw.flatten(2).transpose(1, 2)], dim=1)
