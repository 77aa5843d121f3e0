"""timm's and transformers' Swin and SwinV2 with our weights: the same architectures in other people's code."""

import torch
from torch import nn
from transformers import SwinConfig as TheirSwinConfig
from transformers import SwinForImageClassification, Swinv2ForImageClassification
from transformers import Swinv2Config as TheirSwinV2Config

from models.families.shifted_windows import ShiftedWindowTransformer
from models.families.swin import Swin
from tests.oracles.timm_models import timm

_TRANSFORMERS = {
    "patches.projection": "embeddings.patch_embeddings.projection",
    "patch_norm": "embeddings.norm",
    "norm": "layernorm",
}
_TRANSFORMERS_BLOCK = {
    "attention_residual.norm": "layernorm_before",
    "mlp_residual.norm": "layernorm_after",
}
_TRANSFORMERS_SWIN_BLOCK = {
    **_TRANSFORMERS_BLOCK,
    "attention.query": "attention.q_proj",
    "attention.key": "attention.k_proj",
    "attention.value": "attention.v_proj",
    "attention.output": "attention.o_proj",
    "mlp.expand": "mlp.fc1",
    "mlp.contract": "mlp.fc2",
}
_TRANSFORMERS_SWIN_V2_BLOCK = {
    **_TRANSFORMERS_BLOCK,
    "attention.query": "attention.self.query",
    "attention.key": "attention.self.key",
    "attention.value": "attention.self.value",
    "attention.output": "attention.output.dense",
    "attention.position_bias.expand": "attention.self.continuous_position_bias_mlp.0",
    "attention.position_bias.contract": "attention.self.continuous_position_bias_mlp.2",
    "mlp.expand": "intermediate.dense",
    "mlp.contract": "output.dense",
}
_TIMM = {"patches.projection": "patch_embed.proj", "patch_norm": "patch_embed.norm", "norm": "norm", "head": "head.fc"}
_TIMM_BLOCK = {
    "attention.output": "attn.proj",
    "attention_residual.norm": "norm1",
    "mlp.expand": "mlp.fc1",
    "mlp.contract": "mlp.fc2",
    "mlp_residual.norm": "norm2",
}
_TIMM_SWIN_V2_BLOCK = {
    **_TIMM_BLOCK,
    "attention.position_bias.expand": "attn.cpb_mlp.0",
    "attention.position_bias.contract": "attn.cpb_mlp.2",
}


def logits_of_transformers(ours: ShiftedWindowTransformer, pixels: torch.Tensor) -> torch.Tensor:
    """What transformers' classifier with our weights says."""
    return transformers_from_ours(ours)(pixel_values=pixels).logits


def logits_of_timm(ours: ShiftedWindowTransformer, pixels: torch.Tensor) -> torch.Tensor:
    """What timm's classifier with our weights says."""
    return timm_from_ours(ours)(pixels)


def transformers_from_ours(ours):
    first = isinstance(ours, Swin)
    config = {**_sizes(ours.config), **({} if first else _pretrained(ours.config))}
    theirs = (
        SwinForImageClassification(TheirSwinConfig(**config))
        if first
        else Swinv2ForImageClassification(TheirSwinV2Config(**config))
    )
    theirs.to(ours.head.weight.dtype).eval().requires_grad_(False)
    body = theirs.swin if first else theirs.swinv2
    _copy(ours, body, _TRANSFORMERS)
    theirs.classifier.load_state_dict(ours.head.state_dict())
    for our_stage, their_stage in zip(ours.stages, body.encoder.layers, strict=True):
        for our_block, their_block in zip(our_stage.blocks, their_stage.blocks, strict=True):
            _copy(our_block, their_block, _TRANSFORMERS_SWIN_BLOCK if first else _TRANSFORMERS_SWIN_V2_BLOCK)
            if first:
                table = their_block.attention.relative_position_bias.relative_position_bias_table
                table.copy_(our_block.attention.position_bias.weight)
            else:
                their_block.attention.self.logit_scale.copy_(our_block.attention.cosine.log_scale)
        if their_stage.downsample is not None:
            _copy(our_stage.merging, their_stage.downsample, {"norm": "norm", "reduction": "reduction"})
    return theirs


def timm_from_ours(ours):
    first, config = isinstance(ours, Swin), ours.config
    build = timm.models.SwinTransformer if first else timm.models.SwinTransformerV2
    before = {} if first else {"pretrained_window_sizes": config.pretrained_windows or (0,) * len(config.depths)}
    theirs = build(
        img_size=config.image_size,
        patch_size=config.patch_size,
        in_chans=config.channels,
        num_classes=config.classes,
        embed_dim=config.width,
        depths=config.depths,
        num_heads=config.heads,
        window_size=config.window,
        mlp_ratio=config.mlp_ratio,
        **before,
    )
    theirs.to(ours.head.weight.dtype).eval().requires_grad_(False)
    _copy(ours, theirs, _TIMM)
    for our_stage, their_stage in zip(ours.stages, theirs.layers, strict=True):
        for our_block, their_block in zip(our_stage.blocks, their_stage.blocks, strict=True):
            _copy(our_block, their_block, _TIMM_BLOCK if first else _TIMM_SWIN_V2_BLOCK)
            _copy_timm_attention(our_block.attention, their_block.attn, first)
    for our_stage, next_stage in zip(ours.stages[:-1], theirs.layers[1:], strict=True):
        _copy(our_stage.merging, next_stage.downsample, {"norm": "norm", "reduction": "reduction"})
    return theirs


def _copy_timm_attention(ours, theirs, first):
    projections = (ours.query, ours.key, ours.value)
    theirs.qkv.weight.copy_(torch.cat([each.weight for each in projections]))
    if first:
        theirs.qkv.bias.copy_(torch.cat([each.bias for each in projections]))
        theirs.relative_position_bias_table.copy_(ours.position_bias.weight)
    else:
        theirs.q_bias.copy_(ours.query.bias)
        theirs.v_bias.copy_(ours.value.bias)
        theirs.logit_scale.copy_(ours.cosine.log_scale)


def _copy(ours: nn.Module, theirs: nn.Module, names: dict[str, str]) -> None:
    for our_name, their_name in names.items():
        theirs.get_submodule(their_name).load_state_dict(ours.get_submodule(our_name).state_dict())


def _sizes(config):
    return {
        "image_size": config.image_size,
        "patch_size": config.patch_size,
        "num_channels": config.channels,
        "num_labels": config.classes,
        "embed_dim": config.width,
        "depths": list(config.depths),
        "num_heads": list(config.heads),
        "window_size": config.window,
        "mlp_ratio": float(config.mlp_ratio),
        "layer_norm_eps": config.norm_eps,
    }


def _pretrained(config):
    return {"pretrained_window_sizes": list(config.pretrained_windows or (0,) * len(config.depths))}
