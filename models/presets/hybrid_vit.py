"""Presets of the hybrids: before the ViT a ResNet-50 cut to stride 16, one of stride 32, a ResNet-26, a stem alone.

Source: Dosovitskiy et al. 2021, section 4.1: of ResNet-50's blocks, (3, 4, 6, 3), the last stage's are moved to the
third; Steiner et al. 2021, "How to train your ViT?" (R+Ti/16, R26+S/32, R50+L/32).
"""

from dataclasses import replace

from models.families.hybrid_vit import HybridViTConfig
from models.families.resnet import ResNetConfig
from models.families.vit import ViTConfig
from models.presets import vit
from models.presets.preset import Preset


def _hybrid(backbone: ResNetConfig, transformer: ViTConfig, side: int, patch_size: int = 1) -> HybridViTConfig:
    features = replace(
        transformer, image_size=side // backbone.stride, patch_size=patch_size, channels=backbone.widths[-1]
    )
    return HybridViTConfig(backbone=backbone, vit=features)


_STRIDE_16 = ResNetConfig(blocks=(3, 4, 9))
_CONFIGS = {
    "r-vit-ti-16": _hybrid(ResNetConfig(blocks=()), vit.TI, 224, patch_size=8),
    "r26-vit-s-32": _hybrid(ResNetConfig(blocks=(2, 2, 2, 2)), vit.S, 224),
    "r50-vit-b-16": _hybrid(_STRIDE_16, vit.B, 224),
    "r50-vit-b-16-384": _hybrid(_STRIDE_16, vit.B, 384),
    "r50-vit-l-32": _hybrid(ResNetConfig(blocks=(3, 4, 6, 3)), vit.L, 224),
    "hybrid-vit-tiny": _hybrid(
        ResNetConfig(stem_width=8, blocks=(2, 1), groups=4), replace(vit.TINY, head_width=None), 24
    ),
}
PRESETS = {
    name: Preset(family="hybrid_vit", config=config, compared_with="timm hybrid") for name, config in _CONFIGS.items()
}
