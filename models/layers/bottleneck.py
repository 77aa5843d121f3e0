"""The residual block of ResNet's second half: narrow, look around, widen; with group norms behind standardised weights.

    Bottleneck(x) = ReLU(GN(conv_1(f(x))) + shortcut(x))        f = ReLU ∘ GN ∘ conv_3 ∘ ReLU ∘ GN ∘ conv_1

conv_k has a k × k kernel; the 3 × 3 one has the stride. The shortcut is x itself, or GN(conv_1(x)) with the same stride
where the shape changes.

Legend: B batch, C input channels, O output channels, h and w sides.
Source: He et al. 2016, "Deep Residual Learning for Image Recognition", figure 5 (the stride as in its later versions);
Wu and He 2018, "Group Normalization", equation 7.
"""

from torch import Tensor, nn
from torch.nn import functional as F

from models.layers.std_conv import StdConv

EXPANSION = 4
GROUP_NORM_EPS = 1e-5


class NormedConv(nn.Module):
    """A convolution and its group norm."""

    def __init__(self, channels: int, width: int, kernel: int, stride: int, groups: int) -> None:
        super().__init__()
        self.convolution = StdConv(channels, width, kernel, stride)
        self.norm = nn.GroupNorm(groups, width, eps=GROUP_NORM_EPS)

    def forward(self, features: Tensor) -> Tensor:
        """``[B, C, h, w]`` → ``[B, O, ⌈h / stride⌉, ⌈w / stride⌉]``."""
        normed: Tensor = self.norm(self.convolution(features))
        return normed


class Bottleneck(nn.Module):
    """One residual block.

    Args:
        channels: C.
        width: O; the inner width is a quarter of it.
        stride: of the block.
        groups: of every group norm.
    """

    def __init__(self, channels: int, width: int, stride: int, groups: int) -> None:
        super().__init__()
        inner = width // EXPANSION
        self.narrow = NormedConv(channels, inner, 1, 1, groups)
        self.spatial = NormedConv(inner, inner, 3, stride, groups)
        self.widen = NormedConv(inner, width, 1, 1, groups)
        same_shape = stride == 1 and channels == width
        self.shortcut = nn.Identity() if same_shape else NormedConv(channels, width, 1, stride, groups)

    def forward(self, features: Tensor) -> Tensor:
        """``[B, C, h, w]`` → ``[B, O, ⌈h / stride⌉, ⌈w / stride⌉]``."""
        narrowed = F.relu(self.narrow(features))
        widened = self.widen(F.relu(self.spatial(narrowed)))
        return F.relu(widened + self.shortcut(features))
