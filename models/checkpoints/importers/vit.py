"""The Vision Transformer in Hugging Face's form, with a classifier's head.

Source: ``modeling_vit.py`` of transformers, its names and configuration. Files have the names of version 4, whichever
version wrote them; version 5 calls the parts of a block otherwise.
"""

from typing import Any

from models.checkpoints.importers.activations import ACTIVATION_NAMES
from models.checkpoints.importers.architecture import Architecture, ReferenceModel, Table, same
from models.checkpoints.importers.fields import Fields
from models.families.vit import ViTConfig

BLOCKS = same(
    {
        "blocks.{}.attention_residual.norm": "encoder.layer.{}.layernorm_before",
        "blocks.{}.attention.query": "encoder.layer.{}.attention.attention.query",
        "blocks.{}.attention.key": "encoder.layer.{}.attention.attention.key",
        "blocks.{}.attention.value": "encoder.layer.{}.attention.attention.value",
        "blocks.{}.attention.output": "encoder.layer.{}.attention.output.dense",
        "blocks.{}.mlp_residual.norm": "encoder.layer.{}.layernorm_after",
        "blocks.{}.mlp.expand": "encoder.layer.{}.intermediate.dense",
        "blocks.{}.mlp.contract": "encoder.layer.{}.output.dense",
    }
)
SPELLINGS = (
    (r"^((?:\w+\.)?)layers\.(\d+)\.", r"\1encoder.layer.\2."),
    (r"attention\.q_proj", "attention.attention.query"),
    (r"attention\.k_proj", "attention.attention.key"),
    (r"attention\.v_proj", "attention.attention.value"),
    (r"attention\.o_proj", "attention.output.dense"),
    (r"mlp\.fc1", "intermediate.dense"),
    (r"mlp\.fc2", "output.dense"),
)
MODULES = {
    **BLOCKS,
    **same(
        {
            "patches.projection": "embeddings.patch_embeddings.projection",
            "class_token": "embeddings.cls_token",
            "positions.table": "embeddings.position_embeddings",
            "norm": "layernorm",
            "head": "classifier",
        }
    ),
}


def _origins(config: ViTConfig) -> Table:
    return MODULES


def vit_sizes(fields: Fields) -> dict[str, Any]:
    """What a ``config.json`` says of a ViT's patches and blocks, by our names."""
    # Of a head for pre-training and of a pooled output, which neither a classifier nor an encoder for a decoder has.
    fields.without_effect("encoder_stride", "pooler_output_size", "pooler_act")
    return {
        "image_size": fields.size("image_size", 224),
        "patch_size": fields.size("patch_size", 16),
        "channels": fields.size("num_channels", 3),
        "layers": fields.size("num_hidden_layers", 12),
        "width": fields.size("hidden_size", 768),
        "heads": fields.size("num_attention_heads", 12),
        "mlp_width": fields.size("intermediate_size", 3072),
        "activation": fields.choice("hidden_act", ACTIVATION_NAMES, "gelu"),
        "qkv_bias": fields.flag("qkv_bias", True),
        "dropout": fields.number("hidden_dropout_prob", 0.0),
        "norm_eps": fields.number("layer_norm_eps", 1e-12),
    }


def vit_config(reference: ReferenceModel) -> ViTConfig:
    """The sizes that a ``config.json`` of ViT or DeiT gives."""
    return ViTConfig(classes=reference.classes(), **vit_sizes(reference.fields))


VIT = Architecture(
    model_type="vit",
    classes=("ViTForImageClassification",),
    family="vit",
    config_from=vit_config,
    origins=_origins,
    prefix="vit.",
    spellings=SPELLINGS,
)
