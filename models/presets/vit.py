"""Presets of the Vision Transformer and of DeiT, which without distillation is a ViT.

Source: Dosovitskiy et al. 2021, table 1 (B, L); Touvron et al. 2021, table 1 (Ti, S); Steiner et al. 2021, "How to
train your ViT?" (S/32).
"""

from dataclasses import replace

from models.families.vit import ViTConfig
from models.presets.preset import Preset

TI = ViTConfig(width=192, heads=3, mlp_width=768)
S = ViTConfig(width=384, heads=6, mlp_width=1536)
B = ViTConfig()
L = ViTConfig(layers=24, width=1024, heads=16, mlp_width=4096)
TINY = ViTConfig(
    image_size=12,
    patch_size=4,
    channels=3,
    classes=5,
    layers=2,
    width=16,
    heads=2,
    mlp_width=32,
    head_width=8,
)

_PLAIN = {
    "vit-ti-16": TI,
    "vit-ti-32": replace(TI, patch_size=32),
    "vit-s-16": S,
    "vit-s-32": replace(S, patch_size=32),
    "vit-b-16": B,
    "vit-b-32": replace(B, patch_size=32),
    "vit-l-16": L,
    "vit-l-32": replace(L, patch_size=32),
    "deit-ti-16": TI,
    "deit-s-16": S,
    "deit-b-16": B,
    "vit-tiny": TINY,
}
_DISTILLED = {
    "deit-ti-16-distilled": TI,
    "deit-s-16-distilled": S,
    "deit-b-16-distilled": B,
    "deit-distilled-tiny": replace(TINY, head_width=None),
}
PRESETS = {
    name: Preset(family="vit", config=config, compared_with="transformers ViT, timm") for name, config in _PLAIN.items()
} | {
    name: Preset(family="deit", config=config, compared_with="transformers DeiT, timm")
    for name, config in _DISTILLED.items()
}
