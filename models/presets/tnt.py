"""Presets of Transformer in Transformer: Han et al. 2021, table 1."""

from models.families.tnt import TNTConfig
from models.presets.preset import Preset

_CONFIGS = {
    "tnt-s": TNTConfig(),
    "tnt-b": TNTConfig(inner_width=40, inner_mlp_width=160, width=640, heads=10, mlp_width=2560),
    "tnt-tiny": TNTConfig(
        image_size=16,
        patch_size=8,
        word_size=4,
        classes=5,
        layers=2,
        inner_width=8,
        inner_heads=2,
        inner_mlp_width=16,
        width=16,
        heads=2,
        mlp_width=32,
    ),
}
PRESETS = {name: Preset(family="tnt", config=config, compared_with="timm TNT") for name, config in _CONFIGS.items()}
