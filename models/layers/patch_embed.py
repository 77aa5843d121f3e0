"""Cut an image into square patches and project each to a token.

    token_p = E · flatten(patch_p) + b, computed as one convolution whose stride equals its kernel

Legend: B batch, C channels, P patches, E model width.
Source: Dosovitskiy et al. 2021, equation 1 and section 3.1.
"""

from torch import Tensor, nn

from attendant.errors import ConfigError


class PatchEmbed(nn.Module):
    """Convolutional patchify.

    Raises:
        ConfigError: the image's side is not a multiple of the patch's.
    """

    def __init__(self, image_size: int, patch_size: int, channels: int, width: int) -> None:
        super().__init__()
        if image_size % patch_size:
            raise ConfigError(
                f"an image size that is a multiple of the patch size {patch_size}",
                str(image_size),
                "change one of the two",
            )
        self.count = (image_size // patch_size) ** 2
        self.projection = nn.Conv2d(channels, width, kernel_size=patch_size, stride=patch_size)

    def forward(self, pixels: Tensor) -> Tensor:
        """``[B, C, side, side]`` → ``[B, P, E]``, patches row by row."""
        grid_BEhw: Tensor = self.projection(pixels)
        return grid_BEhw.flatten(2).transpose(1, 2)
