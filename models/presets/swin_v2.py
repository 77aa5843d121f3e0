"""Presets of SwinV2: Liu et al. 2022, section 4.1, trained at 256 pixels with windows of 8 or 16."""

from models.families.swin_v2 import SwinV2Config
from models.presets.preset import Preset

_CONFIGS = {
    "swin-v2-t": SwinV2Config(),
    "swin-v2-s": SwinV2Config(depths=(2, 2, 18, 2)),
    "swin-v2-b": SwinV2Config(depths=(2, 2, 18, 2), width=128, heads=(4, 8, 16, 32)),
    "swin-v2-t-w16": SwinV2Config(window=16),
    "swin-v2-tiny": SwinV2Config(image_size=32, classes=5, depths=(2, 2), heads=(1, 2), width=8, window=3, mlp_ratio=2),
}
PRESETS = {
    name: Preset(family="swin_v2", config=config, compared_with="timm and transformers SwinV2")
    for name, config in _CONFIGS.items()
}
