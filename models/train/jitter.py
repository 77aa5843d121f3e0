"""Turn, stretch and move images a little, so that a small data set shows more hands than wrote it.

Legend: B batch, C channels.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from attendant.config import require


@dataclass(frozen=True, slots=True, kw_only=True)
class Jitter:
    """The largest change of each kind; every image draws its own, uniformly, in both directions.

    Attributes:
        degrees: of rotation.
        scale: of the size, as a share of it.
        pixels: of movement.
    """

    degrees: float
    scale: float
    pixels: float

    def __post_init__(self) -> None:
        for name in ("degrees", "scale", "pixels"):
            require(getattr(self, name) >= 0, f"{name} of at least 0", getattr(self, name))

    def apply(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """Changed copies of square images ``[B, C, side, side]``; what comes in from outside is 0."""
        turn, zoom, right, down = 2 * torch.rand(4, len(images), generator=generator) - 1
        angle, size = turn * math.radians(self.degrees), 1 + zoom * self.scale
        step = 2 * self.pixels / images.shape[-1]
        top = torch.stack([angle.cos() * size, -angle.sin() * size, right * step], dim=1)
        bottom = torch.stack([angle.sin() * size, angle.cos() * size, down * step], dim=1)
        grid = F.affine_grid(torch.stack([top, bottom], dim=1), list(images.shape), align_corners=False)
        return F.grid_sample(images, grid, align_corners=False)
