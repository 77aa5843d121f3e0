"""Presets of Swin: Liu et al. 2021, section 3.3, trained at 224 pixels."""

from models.families.swin import SwinConfig
from models.presets.preset import Preset

_CONFIGS = {
    "swin-t": SwinConfig(),
    "swin-s": SwinConfig(depths=(2, 2, 18, 2)),
    "swin-b": SwinConfig(depths=(2, 2, 18, 2), width=128, heads=(4, 8, 16, 32)),
    "swin-tiny": SwinConfig(image_size=32, classes=5, depths=(2, 2), heads=(1, 2), width=8, window=3, mlp_ratio=2),
}
PRESETS = {
    name: Preset(family="swin", config=config, compared_with="timm and transformers Swin")
    for name, config in _CONFIGS.items()
}
