"""Presets of TimeSformer: Bertasius et al. 2021, section 4 (Kinetics-400), and its baselines with other attention."""

from models.families.timesformer import SpaceTime, TimeSformerConfig
from models.presets.preset import Preset

_SUFFIXES: dict[SpaceTime, str] = {"divided": "", "joint": "-joint", "space": "-space"}


def _tiny(attention: SpaceTime) -> TimeSformerConfig:
    return TimeSformerConfig(
        frames=3, image_size=8, patch_size=4, classes=5, attention=attention, layers=2, width=16, heads=2, mlp_width=32
    )


_CONFIGS = {
    **{f"timesformer-b{suffix}": TimeSformerConfig(attention=form) for form, suffix in _SUFFIXES.items()},
    **{f"timesformer{suffix}-tiny": _tiny(form) for form, suffix in _SUFFIXES.items()},
}
PRESETS = {
    name: Preset(family="timesformer", config=config, compared_with="transformers TimeSformer")
    for name, config in _CONFIGS.items()
}
