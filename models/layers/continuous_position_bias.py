"""A small network that makes a bias of every offset between two places, so that windows may grow after training.

    Δ' = sign(Δ) · log2(1 + 8 |Δ| / (M' − 1)) / log2(8)        bias = 16 σ(W_2 ReLU(W_1 (Δ'_down, Δ'_right) + b_1))

M' is the side of the windows that the network was trained with: in larger ones |Δ'| goes a little beyond its old range,
where |Δ| itself would go far beyond.

Legend: M side of a window, S = M² places, O = (2M − 1)² offsets, H heads.
Source: Liu et al. 2022, "Swin Transformer V2: Scaling Up Capacity and Resolution", section 3.3, equations 3 and 4; the
scaling to [−8, 8], the base of the logarithm and 16 σ as in the authors' code.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.layers.relative_position_2d import offset_of_pair, offsets

_LARGEST = 16.0


class ContinuousPositionBias(nn.Module):
    """SwinV2's network over log-spaced offsets.

    Args:
        window: M.
        heads: H.
        pretrained_window: M'; M if not given.
        hidden: width of the hidden layer.
    """

    offsets: Tensor
    pairs: Tensor

    def __init__(self, window: int, heads: int, pretrained_window: int | None = None, hidden: int = 512) -> None:
        super().__init__()
        self.expand = nn.Linear(2, hidden)
        self.contract = nn.Linear(hidden, heads, bias=False)
        self.register_buffer("offsets", log_spaced_offsets(window, pretrained_window or window), persistent=False)
        self.register_buffer("pairs", offset_of_pair(window), persistent=False)

    def forward(self) -> Tensor:
        """The bias of all pairs of places, ``[H, S, S]``, each between 0 and 16."""
        return F.embedding(self.pairs, self._of_offsets()).permute(2, 0, 1)

    def table(self) -> Tensor:
        """The bias of each offset, in the order of :func:`models.layers.relative_position_2d.offsets`: ``[H, O]``."""
        return self._of_offsets().T

    def _of_offsets(self) -> Tensor:
        return _LARGEST * torch.sigmoid(self.contract(F.relu(self.expand(self.offsets))))


def log_spaced_offsets(window: int, pretrained_window: int) -> Tensor:
    """Δ' of all offsets of a window, float32 ``[O, 2]``; the largest of the training's windows is ±log2(9) / 3."""
    # In float32 and in this order, as in the authors' code: it is what the networks were trained on.
    scaled_O2 = 8 * (offsets(window).float() / max(pretrained_window - 1, 1))
    return scaled_O2.sign() * torch.log2(scaled_O2.abs() + 1) / math.log2(8)
