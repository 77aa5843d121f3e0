"""Convolution and pooling of BiT: standardised weights, and TensorFlow's SAME padding.

    Ŵ_o = (W_o − mean(W_o)) / √(var(W_o) + ε), mean and var over input channels and kernel
    SAME: ⌈side / stride⌉ outputs a side; of the padding that this needs, the odd pixel comes behind

Legend: B batch, C input channels, O output channels, h and w sides.
Source: Qiao et al. 2019, "Micro-Batch Training with Batch-Channel Normalization and Weight Standardization";
Kolesnikov et al. 2020, "Big Transfer (BiT)", section 3.1.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

EPS = 1e-8
_POOL, _POOL_STRIDE = 3, 2


class StdConv(nn.Module):
    """Convolution without a bias whose weights are standardised whenever it runs."""

    def __init__(self, channels: int, width: int, kernel: int, stride: int = 1) -> None:
        super().__init__()
        self.stride = stride
        # Standardised, their size is of no effect; normal numbers only break the symmetry.
        self.weight = nn.Parameter(torch.randn(width, channels, kernel, kernel))

    def forward(self, features: Tensor) -> Tensor:
        """``[B, C, h, w]`` → ``[B, O, ⌈h / stride⌉, ⌈w / stride⌉]``."""
        standardised = F.layer_norm(self.weight, self.weight.shape[1:], eps=EPS)  # one node of a graph
        return F.conv2d(pad_same(features, self.weight.shape[-1], self.stride), standardised, stride=self.stride)


def max_pool(features: Tensor) -> Tensor:
    """The largest of every 3 × 3 pixels, 2 apart: ``[B, C, h, w]`` → ``[B, C, ⌈h / 2⌉, ⌈w / 2⌉]``."""
    return F.max_pool2d(pad_same(features, _POOL, _POOL_STRIDE, -math.inf), _POOL, _POOL_STRIDE)


def pad_same(features: Tensor, kernel: int, stride: int, value: float = 0.0) -> Tensor:
    """Put as much around ``[B, C, h, w]`` as a window needs to give ⌈side / stride⌉ outputs a side."""
    top, bottom = _before_and_behind(features.shape[-2], kernel, stride)
    left, right = _before_and_behind(features.shape[-1], kernel, stride)
    return F.pad(features, (left, right, top, bottom), value=value)


def _before_and_behind(side: int, kernel: int, stride: int) -> tuple[int, int]:
    whole = max((math.ceil(side / stride) - 1) * stride + kernel - side, 0)
    return whole // 2, whole - whole // 2
