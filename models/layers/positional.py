"""Where a token stands: fixed sinusoids, and the learned table of the vision models.

    PE(pos, 2i) = sin(pos / 10000^(2i/E))        PE(pos, 2i+1) = cos(pos / 10000^(2i/E))        0 ≤ i < E/2

Legend: B batch, S positions, E model width.
Source: Vaswani et al. 2017, section 3.5 (i starts at 0: the shortest wavelength is 2π).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def sinusoids(length: int, width: int) -> Tensor:
    """The table of interleaved sines and cosines, float32 ``[length, width]``, computed in float64."""
    position = torch.arange(length, dtype=torch.float64)[:, None]
    dimension = torch.arange(0, width, 2, dtype=torch.float64)[None]
    angle = position / 10000.0 ** (dimension / width)
    table = torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)
    return table[:, :width].float()


class SinusoidalPositions(nn.Module):
    """Look positions up in the fixed table; it is recomputed at start and never stored."""

    table: Tensor

    def __init__(self, length: int, width: int) -> None:
        super().__init__()
        self.register_buffer("table", sinusoids(length, width), persistent=False)

    def forward(self, positions: Tensor) -> Tensor:
        """Vectors of int64 positions ``[B, S]`` below the table's length: ``[B, S, E]``."""
        return F.embedding(positions, self.table)


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
