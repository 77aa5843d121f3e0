"""The encoder of images by others: transformers' ViT, or torch.nn's layers behind a CNN written as loops."""

from typing import Any

import torch
from torch import Tensor, nn
from transformers import ViTConfig, ViTModel

from models.families.vision_encoder import VisionEncoder, VisionEncoderConfig
from tests.models.families.torch_transformer_weights import stack_from_ours
from tests.models.families.vit_weights import copy_up_to_the_head
from tests.models.layers.conv_grid_by_loops import grid_by_loops


def vit_settings(config: VisionEncoderConfig) -> dict[str, Any]:
    """The fields of transformers' ViTConfig."""
    return {
        "image_size": config.image_size,
        "patch_size": config.patch_size,
        "num_channels": config.channels,
        "num_hidden_layers": config.layers,
        "hidden_size": config.width,
        "num_attention_heads": config.heads,
        "intermediate_size": config.mlp_width,
        "qkv_bias": config.qkv_bias,
        "layer_norm_eps": config.norm_eps,
    }


def memory_by_others(ours: VisionEncoder, config: VisionEncoderConfig, pixels: Tensor) -> Tensor:
    """What the encoder makes of images, in other people's code."""
    if config.grid is not None:
        return _memory_by_torch(ours, config, pixels)
    theirs = ViTModel(ViTConfig(**vit_settings(config)), add_pooling_layer=False)
    theirs.to(pixels.dtype).eval().requires_grad_(False)
    copy_up_to_the_head(ours, theirs)
    return theirs(pixel_values=pixels).last_hidden_state


def _memory_by_torch(ours: VisionEncoder, config: VisionEncoderConfig, pixels: Tensor) -> Tensor:
    grid, projection = ours.patches
    kernels = [weight.numpy() for weight in grid.parameters()]
    images = [grid_by_loops(kernels, config.grid.depths, image) for image in pixels.numpy()]
    annotations = torch.stack([torch.from_numpy(image) for image in images]).to(pixels.dtype)
    layer = nn.TransformerEncoderLayer(
        config.width,
        config.heads,
        config.mlp_width,
        dropout=0.0,
        activation="gelu",
        layer_norm_eps=config.norm_eps,
        batch_first=True,
        norm_first=True,
    )
    end = nn.LayerNorm(config.width, eps=config.norm_eps)
    end.load_state_dict(ours.norm.state_dict())
    tokens = annotations @ projection.weight.T + projection.bias + ours.positions.table
    return stack_from_ours(ours.blocks, layer, end)(tokens)
