"""transformers' ViT with our weights: the same architecture in other people's code."""

from torch import nn
from transformers import ViTConfig as TheirConfig
from transformers import ViTForImageClassification

from models.families.vit import ViT, ViTConfig

_BLOCK_PARTS = {
    "attention_residual.norm": "layernorm_before",
    "attention.query": "attention.q_proj",
    "attention.key": "attention.k_proj",
    "attention.value": "attention.v_proj",
    "attention.output": "attention.o_proj",
    "mlp_residual.norm": "layernorm_after",
    "mlp.expand": "mlp.fc1",
    "mlp.contract": "mlp.fc2",
}


def stranger_from_ours(ours: ViT, norm_eps: float = 1e-6) -> ViTForImageClassification:
    """A classifier that must compute what ours computes up to the head; a linear head is copied as well."""
    theirs = ViTForImageClassification(_their_config(ours.config, norm_eps))
    theirs.to(ours.class_token.dtype).eval().requires_grad_(False)
    embeddings = theirs.vit.embeddings
    embeddings.cls_token.copy_(ours.class_token)
    embeddings.position_embeddings.copy_(ours.positions.table)
    embeddings.patch_embeddings.projection.load_state_dict(ours.patches.projection.state_dict())
    for our_block, their_block in zip(ours.blocks, theirs.vit.layers, strict=True):
        for our_name, their_name in _BLOCK_PARTS.items():
            their_part = their_block.get_submodule(their_name)
            their_part.load_state_dict(our_block.get_submodule(our_name).state_dict())
    theirs.vit.layernorm.load_state_dict(ours.norm.state_dict())
    if isinstance(ours.head, nn.Linear):
        theirs.classifier.load_state_dict(ours.head.state_dict())
    return theirs


def _their_config(config: ViTConfig, norm_eps: float) -> TheirConfig:
    return TheirConfig(
        image_size=config.image_size,
        patch_size=config.patch_size,
        num_channels=config.channels,
        num_labels=config.classes,
        num_hidden_layers=config.layers,
        hidden_size=config.width,
        num_attention_heads=config.heads,
        intermediate_size=config.mlp_width,
        layer_norm_eps=norm_eps,
    )
