"""Halve a map's sides and double its width: four neighbours become one vector.

    x = [top left, bottom left, top right, bottom right], 4C        Swin: W LayerNorm(x)        SwinV2: LayerNorm(W x)

A side that is odd is first padded with zeros.

Legend: B batch, h and w height and width of a map, C width of its vectors.
Source: Liu et al. 2021, "Swin Transformer", section 3.1; Liu et al. 2022, "Swin Transformer V2", section 3.2 (the norm
behind); the order of the neighbours and where the norm stands as in the authors' code.
"""

from torch import Tensor, nn

from models.layers.padding import pad_map


class PreNormMerging(nn.Module):
    """Normalise the four neighbours together, then reduce them.

    Args:
        width: C.
        eps: of the normalisation.
    """

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(4 * width, eps=eps)
        self.reduction = nn.Linear(4 * width, 2 * width, bias=False)

    def forward(self, grid: Tensor) -> Tensor:
        """``[B, h, w, C]`` → ``[B, ⌈h/2⌉, ⌈w/2⌉, 2C]``."""
        merged: Tensor = self.reduction(self.norm(neighbours(grid)))
        return merged


class PostNormMerging(nn.Module):
    """Reduce the four neighbours, then normalise the result.

    Args:
        width: C.
        eps: of the normalisation.
    """

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.reduction = nn.Linear(4 * width, 2 * width, bias=False)
        self.norm = nn.LayerNorm(2 * width, eps=eps)

    def forward(self, grid: Tensor) -> Tensor:
        """``[B, h, w, C]`` → ``[B, ⌈h/2⌉, ⌈w/2⌉, 2C]``."""
        merged: Tensor = self.norm(self.reduction(neighbours(grid)))
        return merged


def neighbours(grid: Tensor) -> Tensor:
    """One vector of each square of four places, column by column: ``[B, h, w, C]`` → ``[B, ⌈h/2⌉, ⌈w/2⌉, 4C]``."""
    padded_BhwC = pad_map(grid, 2)
    height, width, features = padded_BhwC.shape[1:]
    squares = padded_BhwC.reshape(-1, height // 2, 2, width // 2, 2, features)
    return squares.permute(0, 1, 3, 4, 2, 5).reshape(-1, height // 2, width // 2, 4 * features)
