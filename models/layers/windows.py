"""Cut a map into windows that may be shifted, and join them again.

    shifted map[i, j] = map[(i + shift) mod side', (j + shift) mod side']        side' = side, padded to a multiple of M

The cyclic shift brings places together that are no neighbours: those that came over an edge must not see those that did
not. Padded places are as any other: they have zeros for features, and are seen. A window is never larger than the map,
and is shifted only if it is smaller.

Legend: B batch, h and w height and width of a map, E width of its vectors, M side of a window, W windows, S = M² places
of a window, row by row.
Source: Liu et al. 2021, "Swin Transformer: Hierarchical Vision Transformer using Shifted Windows", section 3.2, figure
4; padding, then shifting, as in the authors' code for detection.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from models.layers.padding import pad_map, rounded_up


@dataclass(frozen=True, slots=True)
class Windows:
    """How a square map is cut; :func:`windows_of` makes one.

    Attributes:
        side: h and w of the map.
        size: M.
        shift: by how many places the map moves up and left before it is cut.
    """

    side: int
    size: int
    shift: int

    @property
    def along(self) -> int:
        """Windows along one side of the padded map."""
        return rounded_up(self.side, self.size) // self.size

    @property
    def count(self) -> int:
        return self.along**2

    def cut(self, grid: Tensor) -> Tensor:
        """Pad a map ``[B, h, w, E]``, shift it and cut it: ``[B, W, S, E]``, windows row by row."""
        padded_BhwE = pad_map(grid, self.size)
        if self.shift:
            padded_BhwE = padded_BhwE.roll((-self.shift, -self.shift), dims=(1, 2))
        cut = padded_BhwE.reshape(-1, self.along, self.size, self.along, self.size, grid.shape[-1])
        return cut.transpose(2, 3).reshape(-1, self.count, self.size**2, grid.shape[-1])

    def join(self, windows: Tensor) -> Tensor:
        """Undo :meth:`cut`: ``[B, W, S, E]`` → ``[B, h, w, E]``."""
        width, whole = windows.shape[-1], self.along * self.size
        joined = windows.reshape(-1, self.along, self.along, self.size, self.size, width)
        padded_BhwE = joined.transpose(2, 3).reshape(-1, whole, whole, width)
        if self.shift:
            padded_BhwE = padded_BhwE.roll((self.shift, self.shift), dims=(1, 2))
        return padded_BhwE[:, : self.side, : self.side] if whole > self.side else padded_BhwE

    def mask(self) -> Tensor:
        """Which places of a window may see which: bool ``[W, S, S]``, true where neither or both came over an edge."""
        whole = self.along * self.size
        over_W = torch.arange(whole) >= whole - self.shift
        region_hw = 2 * over_W[:, None].long() + over_W
        cut = region_hw.reshape(self.along, self.size, self.along, self.size)
        region_WS = cut.transpose(1, 2).reshape(self.count, self.size**2)
        return region_WS[:, :, None] == region_WS[:, None, :]


def windows_of(side: int, window: int, shifted: bool) -> Windows:
    """The windows of a map: as large as the map at most, and shifted by ⌊M/2⌋ only if they are smaller.

    Args:
        side: h and w.
        window: M, where the map is large enough.
        shifted: whether they are, if they can be.
    """
    return Windows(side, min(side, window), window // 2 if shifted and window < side else 0)
