"""Fill images and maps at the bottom and on the right, where a window or a patch needs more than there is.

    side' = ⌈side / multiple⌉ · multiple, zeros beyond the old side

Legend: B batch, h and w height and width of a map, E width of its vectors.
Source: Liu et al. 2021, "Swin Transformer", section 3.2, footnote on maps that windows do not divide; at the bottom and
on the right as in the authors' code for detection.
"""

from torch import Tensor
from torch.nn import functional as F


def rounded_up(side: int, multiple: int) -> int:
    """The least multiple that is not below a side."""
    return -(-side // multiple) * multiple


def pad_map(grid: Tensor, multiple: int) -> Tensor:
    """Pad both sides of a map ``[B, h, w, E]`` to a multiple."""
    bottom, right = (rounded_up(side, multiple) - side for side in grid.shape[1:3])
    return F.pad(grid, (0, 0, 0, right, 0, bottom)) if bottom or right else grid


def pad_image(pixels: Tensor, multiple: int) -> Tensor:
    """Pad both sides of images ``[B, C, h, w]`` to a multiple."""
    bottom, right = (rounded_up(side, multiple) - side for side in pixels.shape[2:])
    return F.pad(pixels, (0, right, 0, bottom)) if bottom or right else pixels
