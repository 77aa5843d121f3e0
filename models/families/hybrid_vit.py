"""The hybrid: a ViT that reads the features of a convolutional network instead of pixels.

    y = ViT(ResNet(image)): the ViT's image is the last features, its channels their width, its patch often 1 × 1

Legend: B batch, C channels, K classes.
Source: Dosovitskiy et al. 2021, "An Image is Worth 16x16 Words", section 3.1 ("Hybrid Architecture"); Steiner et al.
2021, "How to train your ViT?" (R+Ti/16, R26+S/32, R50+L/32).
"""

from dataclasses import dataclass

from torch import Tensor, nn

from attendant.config import require
from models.families.family import Family
from models.families.resnet import ResNet, ResNetConfig
from models.families.vit import ViT, ViTConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class HybridViTConfig:
    """The two parts of a hybrid.

    Attributes:
        backbone: which makes features of the pixels.
        vit: whose ``image_size`` is the side of the features, and whose ``channels`` is their width.
    """

    backbone: ResNetConfig
    vit: ViTConfig

    def __post_init__(self) -> None:
        width = self.backbone.widths[-1]
        require(self.vit.channels == width, f"the ViT's channels to be the backbone's width {width}", self.vit.channels)

    @property
    def classes(self) -> int:
        return self.vit.classes

    @property
    def pixel_shape(self) -> tuple[int, int, int]:
        """Of one image: channels, height, width."""
        side = self.vit.image_size * self.backbone.stride
        return self.backbone.channels, side, side


class HybridViT(nn.Module):
    """Image classifier over a convolutional network's features."""

    attends_over = "tokens"

    def __init__(self, config: HybridViTConfig) -> None:
        super().__init__()
        self.config = config
        self.backbone = ResNet(config.backbone)
        self.vit = ViT(config.vit)

    def forward(self, pixels: Tensor) -> Tensor:
        """Classify float images ``[B, C, height, width]`` of the configured size: logits ``[B, K]``."""
        logits: Tensor = self.vit(self.backbone(pixels))
        return logits


FAMILY = Family(name="hybrid_vit", graphs="classify", config=HybridViTConfig, build=HybridViT)
