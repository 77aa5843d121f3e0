"""How alike learned positions are: what a model has found out about the plane.

    similarity(p, q) = E_p · E_q / (|E_p| |E_q|)

Legend: P patches, E model width.
Source: Dosovitskiy et al. 2021, figure 7 (middle).
"""

from torch import Tensor
from torch.nn import functional as F

from attendant.config import require


def position_similarity(table: Tensor, grid: tuple[int, int]) -> Tensor:
    """The cosine of every patch's position with all others.

    Args:
        table: learned positions ``[P, E]`` or ``[1, P, E]``, those of class tokens left out.
        grid: rows and columns of patches; their product is P.

    Returns:
        ``[P, rows, columns]``: for each patch a map of the others.

    Raises:
        ConfigError: the grid has another number of patches.
    """
    positions_PE = table.reshape(-1, table.shape[-1])
    require(len(positions_PE) == grid[0] * grid[1], f"{len(positions_PE)} patches in the grid", grid)
    unit_PE = F.normalize(positions_PE, dim=-1)
    return (unit_PE @ unit_PE.T).view(-1, *grid)
