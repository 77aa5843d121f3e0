"""timm's ViT, distilled DeiT and hybrid with our weights: the same architectures in other people's code."""

from functools import partial

import torch
from torch import nn

from models.families.deit import DistilledViT
from models.families.hybrid_vit import HybridViT
from models.families.resnet import ResNet, ResNetConfig
from models.families.vit import ViT, ViTConfig
from tests.oracles.timm_models import timm

_BLOCK_PARTS = {
    "norm1": "attention_residual.norm",
    "attn.proj": "attention.output",
    "norm2": "mlp_residual.norm",
    "mlp.fc1": "mlp.expand",
    "mlp.fc2": "mlp.contract",
}
_CONVOLUTIONS = {"1": "narrow", "2": "spatial", "3": "widen"}


def timm_from_ours(ours: ViT | DistilledViT | HybridViT, **settings: object) -> nn.Module:
    """A classifier that must compute what ours computes; the head is linear."""
    hybrid = isinstance(ours, HybridViT)
    vit = ours.vit if hybrid else ours
    settings = _settings(vit.config) | settings
    if hybrid:
        side = ours.config.pixel_shape[-1]
        backbone = timm_backbone(ours.config.backbone)
        embed = partial(timm.layers.HybridEmbed, backbone=backbone)
        settings |= {"embed_layer": embed, "img_size": side, "in_chans": ours.config.backbone.channels}
    kind = timm.models.deit.VisionTransformerDistilled if isinstance(vit, DistilledViT) else None
    theirs = (kind or timm.models.vision_transformer.VisionTransformer)(**settings)
    state = _vit_state(vit)
    if hybrid:
        state |= {f"patch_embed.backbone.{name}": value for name, value in _backbone_state(ours.backbone).items()}
    theirs.load_state_dict(state)
    return theirs.to(vit.class_token.dtype).eval().requires_grad_(False)


def timm_backbone(config: ResNetConfig) -> nn.Module:
    """timm's backbone of a hybrid, or its stem."""
    convolution = partial(timm.layers.StdConv2dSame, eps=1e-8)
    norm = partial(timm.layers.GroupNormAct, num_groups=config.groups)
    if not config.blocks:
        stem = timm.models.resnetv2.create_resnetv2_stem
        return stem(config.channels, config.stem_width, "same", False, conv_layer=convolution, norm_layer=norm)
    return timm.models.resnetv2.ResNetV2(
        layers=config.blocks,
        channels=config.widths[1:],
        num_classes=0,
        in_chans=config.channels,
        global_pool="",
        stem_chs=config.stem_width,
        stem_type="same",
        preact=False,
        norm_layer=norm,
        conv_layer=convolution,
    )


def _settings(config: ViTConfig) -> dict:
    return {
        "img_size": config.image_size,
        "patch_size": config.patch_size,
        "in_chans": config.channels,
        "num_classes": config.classes,
        "embed_dim": config.width,
        "depth": config.layers,
        "num_heads": config.heads,
        "mlp_ratio": config.mlp_width / config.width,
    }


def _vit_state(ours: ViT | DistilledViT) -> dict:
    state = {"cls_token": ours.class_token, "pos_embed": ours.positions.table}
    _put(state, "patch_embed.proj", ours.patches.projection)
    for index, block in enumerate(ours.blocks):
        three = [block.attention.query, block.attention.key, block.attention.value]
        state[f"blocks.{index}.attn.qkv.weight"] = torch.cat([one.weight for one in three])
        state[f"blocks.{index}.attn.qkv.bias"] = torch.cat([one.bias for one in three])
        for their_name, our_name in _BLOCK_PARTS.items():
            _put(state, f"blocks.{index}.{their_name}", block.get_submodule(our_name))
    _put(state, "norm", ours.norm)
    _put(state, "head", ours.head)
    if isinstance(ours, DistilledViT):
        state["dist_token"] = ours.distillation_token
        _put(state, "head_dist", ours.distillation_head)
    return state


def _backbone_state(ours: ResNet) -> dict:
    state: dict = {}
    stem = "stem." if len(ours.stages) else ""
    _put(state, f"{stem}conv", ours.stem.convolution)
    _put(state, f"{stem}norm", ours.stem.norm)
    for stage, blocks in enumerate(ours.stages):
        for index, block in enumerate(blocks):
            for number, part in _CONVOLUTIONS.items():
                _put(state, f"stages.{stage}.blocks.{index}.conv{number}", getattr(block, part).convolution)
                _put(state, f"stages.{stage}.blocks.{index}.norm{number}", getattr(block, part).norm)
            if not isinstance(block.shortcut, nn.Identity):
                _put(state, f"stages.{stage}.blocks.{index}.downsample.conv", block.shortcut.convolution)
                _put(state, f"stages.{stage}.blocks.{index}.downsample.norm", block.shortcut.norm)
    return state


def _put(state: dict, their_name: str, our_part: nn.Module) -> None:
    state.update({f"{their_name}.{last}": value for last, value in our_part.state_dict().items()})
