"""Scores by the angle between a query and a key, whatever their lengths.

    score(q, k) = cos(q, k) / τ        1/τ = exp(min(s, ln 100)), s learned, one number a head, so that τ ≥ 0.01

Legend: H heads, S positions, D head size; … is any number of axes.
Source: Liu et al. 2022, "Swin Transformer V2", section 3.2, equation 2; s as in the authors' code.
"""

import math

import torch
from torch import Tensor, nn

_LARGEST_SCALE = 100.0
_FIRST_SCALE = 10.0
_SHORTEST = 1e-4
"""A shorter vector counts as this long; 1e-12, which is usual, and the inverse of 1e-6 do not exist in float16."""


class ScaledCosine(nn.Module):
    """Change queries and keys so that their product, not scaled any more, is the score.

    Args:
        heads: H.
    """

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.log_scale = nn.Parameter(torch.full((heads, 1, 1), math.log(_FIRST_SCALE)))

    def forward(self, queries: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
        """Queries ``[…, H, S, D]`` of length 1/τ and keys ``[…, H, S, D]`` of length 1."""
        return _unit(queries) * self.scales(), _unit(keys)

    def scales(self) -> Tensor:
        """1/τ, ``[H, 1, 1]``."""
        return self.log_scale.clamp(max=math.log(_LARGEST_SCALE)).exp()


def _unit(vectors: Tensor) -> Tensor:
    length: Tensor = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
    return vectors / length.clamp(min=_SHORTEST)
