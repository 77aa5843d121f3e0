"""Presets of T5: Raffel et al. 2020, section 3.7, and version 1.1, whose sizes FLAN-T5 has (Chung et al. 2022)."""

from models.families.t5 import T5Config
from models.presets.preset import Preset

_V1_1_SMALL = T5Config(layers=8, heads=6, mlp_width=1024, activation="gelu_tanh", gated_mlp=True, tied=False)
_CONFIGS = {
    "t5-small": T5Config(),
    "t5-v1.1-small": _V1_1_SMALL,
    "flan-t5-small": _V1_1_SMALL,
    "t5-tiny": T5Config(
        vocabulary_size=31,
        layers=2,
        width=16,
        heads=2,
        head_size=4,
        mlp_width=32,
        distance_buckets=8,
        longest_distance=10,
        max_source_length=12,
        max_target_length=8,
    ),
    "t5-v1.1-tiny": T5Config(
        vocabulary_size=31,
        layers=2,
        decoder_layers=1,
        width=16,
        heads=3,
        head_size=8,
        mlp_width=24,
        activation="gelu_tanh",
        gated_mlp=True,
        tied=False,
        distance_buckets=8,
        longest_distance=10,
        max_source_length=12,
        max_target_length=8,
    ),
}
PRESETS = {
    name: Preset(family="t5", config=config, compared_with="transformers T5") for name, config in _CONFIGS.items()
}
