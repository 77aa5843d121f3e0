"""A learned number for each head and each offset between two places of a window, added to the attention scores.

    bias[h, p, q] = weight[(2M − 1) (row_p − row_q + M − 1) + column_p − column_q + M − 1, h]

Legend: M side of a window, S = M² places, O = (2M − 1)² offsets, H heads, p and q places of a query and a key.
Source: Liu et al. 2021, "Swin Transformer", section 3.2, equation 4.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def offsets(window: int) -> Tensor:
    """All offsets, down and right, of two places of a window: int64 ``[O, 2]``, in the order of the table's rows."""
    along = torch.arange(1 - window, window)
    return torch.cartesian_prod(along, along)


def offset_of_pair(window: int) -> Tensor:
    """For each query and key of a window, the row of their offset in :func:`offsets`: int64 ``[S, S]``."""
    along = torch.arange(window)
    places_S2 = torch.cartesian_prod(along, along)
    offset_SS2 = places_S2[:, None] - places_S2[None] + window - 1
    return offset_SS2[..., 0] * (2 * window - 1) + offset_SS2[..., 1]


class OffsetBias(nn.Module):
    """Swin's table of biases.

    Args:
        window: M.
        heads: H.
    """

    pairs: Tensor

    def __init__(self, window: int, heads: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn((2 * window - 1) ** 2, heads) * 0.02)
        self.register_buffer("pairs", offset_of_pair(window), persistent=False)

    def forward(self) -> Tensor:
        """The bias of all pairs of places, ``[H, S, S]``."""
        return F.embedding(self.pairs, self.weight).permute(2, 0, 1)

    def table(self) -> Tensor:
        """The bias of each offset, in the order of :func:`offsets`: ``[H, O]``."""
        return self.weight.T
