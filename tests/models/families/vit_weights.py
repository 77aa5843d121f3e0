"""transformers' ViT and distilled DeiT with our weights: the same architectures in other people's code."""

from torch import nn
from transformers import DeiTConfig, DeiTForImageClassificationWithTeacher, ViTForImageClassification
from transformers import ViTConfig as TheirConfig

from models.families.deit import DistilledViT
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
    theirs = ViTForImageClassification(TheirConfig(**_settings(ours.config, norm_eps)))
    theirs.to(ours.class_token.dtype).eval().requires_grad_(False)
    copy_up_to_the_head(ours, theirs.vit)
    if isinstance(ours.head, nn.Linear):
        theirs.classifier.load_state_dict(ours.head.state_dict())
    return theirs


def deit_from_ours(ours: DistilledViT) -> DeiTForImageClassificationWithTeacher:
    """A classifier that must compute what ours computes; the heads are linear."""
    theirs = DeiTForImageClassificationWithTeacher(DeiTConfig(**_settings(ours.config, ours.config.norm_eps)))
    theirs.to(ours.class_token.dtype).eval().requires_grad_(False)
    copy_up_to_the_head(ours, theirs.deit)
    theirs.deit.embeddings.distillation_token.copy_(ours.distillation_token)
    theirs.cls_classifier.load_state_dict(ours.head.state_dict())
    theirs.distillation_classifier.load_state_dict(ours.distillation_head.state_dict())
    return theirs


def copy_up_to_the_head(ours: nn.Module, theirs: nn.Module) -> None:
    """Patches, class token, positions, blocks and the norm behind them into a stranger's model of the same kind."""
    theirs.embeddings.cls_token.copy_(ours.class_token)
    theirs.embeddings.position_embeddings.copy_(ours.positions.table)
    theirs.embeddings.patch_embeddings.projection.load_state_dict(ours.patches.projection.state_dict())
    for our_block, their_block in zip(ours.blocks, theirs.layers, strict=True):
        for our_name, their_name in _BLOCK_PARTS.items():
            their_part = their_block.get_submodule(their_name)
            their_part.load_state_dict(our_block.get_submodule(our_name).state_dict())
    theirs.layernorm.load_state_dict(ours.norm.state_dict())


def _settings(config: ViTConfig, norm_eps: float) -> dict:
    return {
        "image_size": config.image_size,
        "patch_size": config.patch_size,
        "num_channels": config.channels,
        "num_labels": config.classes,
        "num_hidden_layers": config.layers,
        "hidden_size": config.width,
        "num_attention_heads": config.heads,
        "intermediate_size": config.mlp_width,
        "layer_norm_eps": norm_eps,
    }
