"""A convolutional network without its head: an image becomes a grid of annotations, each of a part of it.

    stage: as many 3 × 3 convolutions with ReLU as its depth says        a 2 × 2 max pool between two stages
    annotations a_1 … a_L: the last stage's grid h × w, row by row, L = h w

Legend: B batch, C channels, h and w sides of the grid, L positions, D width of an annotation.
Source: Simonyan and Zisserman 2015, "Very Deep Convolutional Networks", table 1 (configuration E, without the last pool
and the layers behind it); Xu et al. 2015, "Show, Attend and Tell", section 3.1.1.
"""

from dataclasses import dataclass

from torch import Tensor, nn

from attendant.config import require


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvGridConfig:
    """Sizes of the network; VGG-19's if not given.

    Attributes:
        widths: channels of each stage; the last is D.
        depths: convolutions of each stage.
    """

    widths: tuple[int, ...] = (64, 128, 256, 512, 512)
    depths: tuple[int, ...] = (2, 2, 4, 4, 4)

    def __post_init__(self) -> None:
        for name in ("widths", "depths"):
            values = getattr(self, name)
            whole = isinstance(values, tuple) and all(type(value) is int and value > 0 for value in values)
            require(whole and values != (), f"{name} to be positive integers", repr(values))
        require(len(self.widths) == len(self.depths), "a width and a depth for each stage", (self.widths, self.depths))

    @property
    def stride(self) -> int:
        """Pixels of the image, in each direction, to one annotation."""
        return int(2 ** (len(self.widths) - 1))

    @property
    def width(self) -> int:
        return self.widths[-1]


class ConvGrid(nn.Module):
    def __init__(self, config: ConvGridConfig, channels: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for stage, (width, depth) in enumerate(zip(config.widths, config.depths, strict=True)):
            layers += [nn.MaxPool2d(2)] if stage else []
            for _ in range(depth):
                layers += [nn.Conv2d(channels, width, kernel_size=3, padding=1), nn.ReLU()]
                channels = width
        self.layers = nn.Sequential(*layers)

    def forward(self, pixels: Tensor) -> Tensor:
        """Images ``[B, C, height, width]``, multiples of the stride, → annotations ``[B, L, D]``."""
        grid_BDhw: Tensor = self.layers(pixels)
        return grid_BDhw.flatten(2).transpose(1, 2)
