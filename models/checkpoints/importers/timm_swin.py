"""Swin and SwinV2 in timm's form: one matrix for queries, keys and values, and merging at the start of a stage.

Source: ``swin_transformer.py`` and ``swin_transformer_v2.py`` of timm, their names. The authors' files, too, call
merging ``downsample``, but at the end of the stage before; they are refused, as tensors are missing.
"""

from dataclasses import replace
from typing import Any, TypeVar

from attendant.config import require
from models.checkpoints.importers.architecture import Architecture, ReferenceModel, Table, origin, part, same
from models.checkpoints.importers.swin import mlp_ratio, one_a_stage
from models.checkpoints.importers.swin_v2 import trained_windows
from models.checkpoints.importers.timm import resize_config
from models.families.shifted_windows import ShiftedWindowConfig
from models.families.swin import SwinConfig
from models.families.swin_v2 import SwinV2Config
from models.presets import PRESETS

ConfigT = TypeVar("ConfigT", bound=ShiftedWindowConfig)
_SIZES = {"tiny": "t", "small": "s", "base": "b"}
_SWIN: dict[str, SwinConfig] = {
    f"swin_{size}_patch4_window7_224": PRESETS[f"swin-{letter}"].config for size, letter in _SIZES.items()
}
_SWIN_V2: dict[str, SwinV2Config] = {
    f"swinv2_{size}_window{window}_256": replace(PRESETS[f"swin-v2-{letter}"].config, window=window)
    for window in (8, 16)
    for size, letter in _SIZES.items()
}
_NAMES = {
    "img_size": "image_size",
    "patch_size": "patch_size",
    "in_chans": "channels",
    "embed_dim": "width",
    "window_size": "window",
}
_BLOCK, _THEIR_BLOCK = "stages.{}.blocks.{}.", "layers.{}.blocks.{}."
_MODULES = same(
    {
        "patches.projection": "patch_embed.proj",
        "patch_norm": "patch_embed.norm",
        f"{_BLOCK}attention_residual.norm": f"{_THEIR_BLOCK}norm1",
        f"{_BLOCK}attention.output": f"{_THEIR_BLOCK}attn.proj",
        f"{_BLOCK}mlp_residual.norm": f"{_THEIR_BLOCK}norm2",
        f"{_BLOCK}mlp.expand": f"{_THEIR_BLOCK}mlp.fc1",
        f"{_BLOCK}mlp.contract": f"{_THEIR_BLOCK}mlp.fc2",
        "norm": "norm",
        "head": "head.fc",
    }
)
_FUSED = ("query", "key", "value")
_SWIN_ATTENTION = {
    **{
        f"{_BLOCK}attention.{ours}": origin(f"{_THEIR_BLOCK}attn.qkv", change=part(number, of=3))
        for number, ours in enumerate(_FUSED)
    },
    f"{_BLOCK}attention.position_bias.weight": origin(f"{_THEIR_BLOCK}attn.relative_position_bias_table"),
}
_SWIN_V2_ATTENTION = {
    **{
        f"{_BLOCK}attention.{ours}.weight": origin(f"{_THEIR_BLOCK}attn.qkv.weight", change=part(number, of=3))
        for number, ours in enumerate(_FUSED)
    },
    **same(
        {
            f"{_BLOCK}attention.query.bias": f"{_THEIR_BLOCK}attn.q_bias",
            f"{_BLOCK}attention.value.bias": f"{_THEIR_BLOCK}attn.v_bias",
            f"{_BLOCK}attention.cosine.log_scale": f"{_THEIR_BLOCK}attn.logit_scale",
            f"{_BLOCK}attention.position_bias.expand": f"{_THEIR_BLOCK}attn.cpb_mlp.0",
            f"{_BLOCK}attention.position_bias.contract": f"{_THEIR_BLOCK}attn.cpb_mlp.2",
        }
    ),
}


def _merging_table(config: ShiftedWindowConfig) -> Table:
    return same(
        {
            f"stages.{stage}.merging.{name}": f"layers.{stage + 1}.downsample.{name}"
            for stage in range(len(config.depths) - 1)
            for name in ("norm", "reduction")
        }
    )


def _swin_origins(config: SwinConfig) -> Table:
    return {**_MODULES, **_merging_table(config), **_SWIN_ATTENTION}


def _swin_v2_origins(config: SwinV2Config) -> Table:
    return {**_MODULES, **_merging_table(config), **_SWIN_V2_ATTENTION}


def _swin_config(reference: ReferenceModel) -> SwinConfig:
    return _apply_fields(reference, reference.fields.choice("architecture", _SWIN, ""))


def _swin_v2_config(reference: ReferenceModel) -> SwinV2Config:
    named = reference.fields.choice("architecture", _SWIN_V2, "")
    return _apply_fields(reference, named, **trained_windows(reference.fields))


def _apply_fields(reference: ReferenceModel, named: ConfigT, **settings: Any) -> ConfigT:
    fields = reference.fields
    fields.only("global_pool", "avg")
    fields.only("qkv_bias", True)
    fields.without_effect("drop_rate", "proj_drop_rate", "attn_drop_rate", "drop_path_rate")  # of training
    depths, heads = (one_a_stage(fields.get(name)) for name in ("depths", "num_heads"))
    settings |= {"depths": depths or named.depths, "heads": heads or named.heads, "mlp_ratio": mlp_ratio(fields)}
    config = resize_config(fields, named, _NAMES, **settings)
    whole = config.image_size % config.patch_size == 0
    expected = f"img_size a multiple of the patch_size {config.patch_size}, beyond which timm looks at nothing"
    require(whole, expected, config.image_size, "this model is not supported")
    for side in config.sides:
        fits = side % min(side, config.window) == 0
        expected = f"an img_size whose maps windows of {config.window} fill; timm shifts before it pads"
        require(fits, expected, f"{config.image_size} with a map of {side}", "this model is not supported")
    return config


_COMPUTED = (r".*\.relative_position_index", r".*\.relative_coords_table", r".*\.attn_mask")
TIMM_SWIN = Architecture(
    model_type="timm swin",
    classes=tuple(_SWIN),
    family="swin",
    config_from=_swin_config,
    origins=_swin_origins,
    ignored=_COMPUTED,
    library="timm",
)
TIMM_SWIN_V2 = Architecture(
    model_type="timm swin v2",
    classes=tuple(_SWIN_V2),
    family="swin_v2",
    config_from=_swin_v2_config,
    origins=_swin_v2_origins,
    ignored=_COMPUTED,
    library="timm",
)
