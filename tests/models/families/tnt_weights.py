"""timm's TNT with our weights: the same architecture in other people's code."""

import torch
from torch import nn

from models.families.tnt import TNT
from models.layers.vision_block import VisionBlock
from tests.oracles.timm_models import timm_model

_BLOCK_PARTS = {
    "inner.attention_residual.norm": "norm_in",
    "inner.mlp_residual.norm": "norm_mlp_in",
    "inner.mlp.expand": "mlp_in.fc1",
    "inner.mlp.contract": "mlp_in.fc2",
    "inner.attention.output": "attn_in.proj",
    "inner.attention.value": "attn_in.v",
    "projection.norm": "norm1_proj",
    "projection.linear": "proj",
    "projection.output_norm": "norm2_proj",
    "outer.attention_residual.norm": "norm_out",
    "outer.mlp_residual.norm": "norm_mlp",
    "outer.mlp.expand": "mlp.fc1",
    "outer.mlp.contract": "mlp.fc2",
    "outer.attention.output": "attn_out.proj",
    "outer.attention.value": "attn_out.v",
}
_PARTS = {
    "words.projection": "pixel_embed.proj",
    "projection.norm": "norm1_proj",
    "projection.linear": "proj",
    "projection.output_norm": "norm2_proj",
    "norm": "norm",
    "head": "head",
}


def stranger_from_ours(ours: TNT, name: str = "tnt_s_patch16_224") -> nn.Module:
    """A classifier that must compute what ours computes; its inner MLP is always four times as wide as a word."""
    theirs = timm_model(name, **_their_settings(ours.config)).to(ours.class_token.dtype).requires_grad_(False)
    theirs.cls_token.copy_(ours.class_token)
    theirs.patch_pos.copy_(ours.positions.table)
    theirs.pixel_pos.copy_(ours.words.positions.table.mT.reshape(theirs.pixel_pos.shape))
    _copy(ours, theirs, _PARTS)
    for our_block, their_block in zip(ours.blocks, theirs.blocks, strict=True):
        _copy(our_block, their_block, _BLOCK_PARTS)
        their_block.attn_in.qk.weight.copy_(_queries_and_keys(our_block.inner))
        their_block.attn_out.qk.weight.copy_(_queries_and_keys(our_block.outer))
    return theirs


def _copy(ours, theirs, parts):
    for our_name, their_name in parts.items():
        theirs.get_submodule(their_name).load_state_dict(ours.get_submodule(our_name).state_dict())


def _queries_and_keys(block: VisionBlock):
    return torch.cat([block.attention.query.weight, block.attention.key.weight])


def _their_settings(config):
    return {
        "img_size": config.image_size,
        "patch_size": config.patch_size,
        "first_stride": config.word_size,
        "in_chans": config.channels,
        "num_classes": config.classes,
        "depth": config.layers,
        "inner_dim": config.inner_width,
        "num_heads_inner": config.inner_heads,
        "embed_dim": config.width,
        "num_heads_outer": config.heads,
        "mlp_ratio": config.mlp_width / config.width,
    }
