"""ViT, DeiT and the hybrids in timm's form: one matrix for queries, keys and values.

Source: ``vision_transformer.py``, ``deit.py``, ``vision_transformer_hybrid.py`` and ``resnetv2.py`` of timm, their
names.
"""

from collections.abc import Mapping
from dataclasses import replace

from attendant.config import require
from models.checkpoints.importers.architecture import Architecture, Change, ReferenceModel, Table, origin, same
from models.checkpoints.importers.timm import mlp_width, resize_config
from models.families.hybrid_vit import HybridViTConfig
from models.families.vit import ViTConfig
from models.presets import PRESETS

_SIDES = (224, 384)
_PATCHED = {
    "tiny_patch16": "vit-ti-16",
    "small_patch16": "vit-s-16",
    "small_patch32": "vit-s-32",
    "base_patch16": "vit-b-16",
    "base_patch32": "vit-b-32",
    "large_patch16": "vit-l-16",
    "large_patch32": "vit-l-32",
}
_HYBRIDS = {
    "vit_tiny_r_s16_p8": "r-vit-ti-16",
    "vit_small_r26_s32": "r26-vit-s-32",
    "vit_base_r50_s16": "r50-vit-b-16",
    "vit_large_r50_s32": "r50-vit-l-32",
}
_ALIKE = {
    "patches.projection": "patch_embed.proj",
    "class_token": "cls_token",
    "positions.table": "pos_embed",
    "blocks.{}.attention_residual.norm": "blocks.{}.norm1",
    "blocks.{}.attention.output": "blocks.{}.attn.proj",
    "blocks.{}.mlp_residual.norm": "blocks.{}.norm2",
    "blocks.{}.mlp.expand": "blocks.{}.mlp.fc1",
    "blocks.{}.mlp.contract": "blocks.{}.mlp.fc2",
    "norm": "norm",
    "head": "head",
}
_SIZES = {"patch_size": "patch_size", "embed_dim": "width", "depth": "layers", "num_heads": "heads"}
_MLP_RATIO = 4.0
_FUSED = ("query", "key", "value")
_BLOCK, _THEIR_BLOCK = "backbone.stages.{}.{}", "patch_embed.backbone.stages.{}.blocks.{}"
_BOTTLENECK = {
    "narrow": ("conv1", "norm1"),
    "spatial": ("conv2", "norm2"),
    "widen": ("conv3", "norm3"),
    "shortcut": ("downsample.conv", "downsample.norm"),
}


def _vit_sizes() -> dict[str, ViTConfig]:
    sized = {name: PRESETS[preset].config for name, preset in _PATCHED.items()}
    return {f"vit_{name}_{side}": replace(one, image_size=side) for name, one in sized.items() for side in _SIDES}


def _hybrid_sizes() -> dict[str, HybridViTConfig]:
    sizes = {}
    for name, preset in _HYBRIDS.items():
        config = PRESETS[preset].config
        for side in _SIDES:
            features = replace(config.vit, image_size=side // config.backbone.stride)
            sizes[f"{name}_{side}"] = replace(config, vit=features)
    return sizes


_VIT = _vit_sizes()
_DEIT = {
    f"{size}_patch16_{side}": _VIT[f"vit_{size}_patch16_{side}"]
    for size, side in (("tiny", 224), ("small", 224), ("base", 224), ("base", 384))
}
_PLAIN = {**_VIT, **{f"deit_{name}": config for name, config in _DEIT.items()}}
_DISTILLED = {f"deit_{name.replace('_', '_distilled_', 1)}": config for name, config in _DEIT.items()}
_HYBRID = _hybrid_sizes()


def _third(number: int) -> Change:
    return lambda tensor: tensor.chunk(3)[number]


def _modules(prefix: str = "") -> Table:
    alike = same({f"{prefix}{ours}": theirs for ours, theirs in _ALIKE.items()})
    fused = {
        f"{prefix}blocks.{{}}.attention.{part}": origin("blocks.{}.attn.qkv", change=_third(number))
        for number, part in enumerate(_FUSED)
    }
    return {**alike, **fused}


def _plain_origins(config: ViTConfig) -> Table:
    return _modules()


def _distilled_origins(config: ViTConfig) -> Table:
    return {**_modules(), **same({"distillation_token": "dist_token", "distillation_head": "head_dist"})}


def _hybrid_origins(config: HybridViTConfig) -> Table:
    stem = "patch_embed.backbone.stem" if config.backbone.blocks else "patch_embed.backbone"
    backbone = {"backbone.stem.convolution": f"{stem}.conv", "backbone.stem.norm": f"{stem}.norm"}
    for part, (convolution, norm) in _BOTTLENECK.items():
        backbone[f"{_BLOCK}.{part}.convolution"] = f"{_THEIR_BLOCK}.{convolution}"
        backbone[f"{_BLOCK}.{part}.norm"] = f"{_THEIR_BLOCK}.{norm}"
    return {**_modules("vit."), **same(backbone)}


def _plain_config(reference: ReferenceModel) -> ViTConfig:
    return _vit_config(reference, reference.fields.choice("architecture", _PLAIN, ""))


def _distilled_config(reference: ReferenceModel) -> ViTConfig:
    return _vit_config(reference, reference.fields.choice("architecture", _DISTILLED, ""))


def _vit_config(reference: ReferenceModel, named: ViTConfig) -> ViTConfig:
    return _resize_vit(reference, named, {"img_size": "image_size", "in_chans": "channels"})


def _hybrid_config(reference: ReferenceModel) -> HybridViTConfig:
    named = reference.fields.choice("architecture", _HYBRID, "")
    channels, side, _ = named.pixel_shape
    image_size = reference.fields.size("img_size", side)
    require(image_size % named.backbone.stride == 0, f"img_size a multiple of {named.backbone.stride}", image_size)
    features = replace(_resize_vit(reference, named.vit, {}), image_size=image_size // named.backbone.stride)
    backbone = replace(named.backbone, channels=reference.fields.size("in_chans", channels))
    return HybridViTConfig(backbone=backbone, vit=features)


def _resize_vit(reference: ReferenceModel, named: ViTConfig, names: Mapping[str, str]) -> ViTConfig:
    reference.fields.only("global_pool", "token")
    config = resize_config(reference.fields, named, {**_SIZES, **names})
    return replace(config, mlp_width=mlp_width(reference.fields, config.width, _MLP_RATIO))


TIMM_VIT = Architecture(
    model_type="timm vit",
    classes=tuple(_PLAIN),
    family="vit",
    config_from=_plain_config,
    origins=_plain_origins,
    library="timm",
)
TIMM_DEIT = Architecture(
    model_type="timm deit",
    classes=tuple(_DISTILLED),
    family="deit",
    config_from=_distilled_config,
    origins=_distilled_origins,
    library="timm",
)
TIMM_HYBRID = Architecture(
    model_type="timm hybrid",
    classes=tuple(_HYBRID),
    family="hybrid_vit",
    config_from=_hybrid_config,
    origins=_hybrid_origins,
    library="timm",
)
