"""Presets of the Vision Transformer: Dosovitskiy et al. 2021, table 1."""

from __future__ import annotations

from models.families.vit import ViTConfig
from models.presets.preset import Preset

_CONFIGS = {
    "vit-b-16": ViTConfig(),
    "vit-b-32": ViTConfig(patch_size=32),
    "vit-l-16": ViTConfig(layers=24, width=1024, heads=16, mlp_width=4096),
    "vit-tiny": ViTConfig(
        image_size=12,
        patch_size=4,
        channels=3,
        classes=5,
        layers=2,
        width=16,
        heads=2,
        mlp_width=32,
        head_width=8,
    ),
}
PRESETS = {
    name: Preset(family="vit", config=config, compared_with="transformers ViT") for name, config in _CONFIGS.items()
}
