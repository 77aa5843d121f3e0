"""Swin in Hugging Face's form, with a classifier's head.

Source: ``modeling_swin.py`` of transformers, its names and configuration. Files have the names of version 4, whichever
version wrote them; version 5 calls the parts of a block otherwise.
"""

from typing import Any

from models.checkpoints.importers.activations import ACTIVATION_NAMES
from models.checkpoints.importers.architecture import Architecture, ReferenceModel, Table, same
from models.checkpoints.importers.fields import Fields
from models.families.swin import SwinConfig

_BLOCK = "stages.{}.blocks.{}."
_THEIR_BLOCK = "encoder.layers.{}.blocks.{}."
SPELLINGS = (
    (r"attention\.q_proj", "attention.self.query"),
    (r"attention\.k_proj", "attention.self.key"),
    (r"attention\.v_proj", "attention.self.value"),
    (r"attention\.o_proj", "attention.output.dense"),
    (r"attention\.relative_position_bias\.", "attention.self."),
    (r"mlp\.fc1", "intermediate.dense"),
    (r"mlp\.fc2", "output.dense"),
)
MODULES = same(
    {
        "patches.projection": "embeddings.patch_embeddings.projection",
        "patch_norm": "embeddings.norm",
        f"{_BLOCK}attention_residual.norm": f"{_THEIR_BLOCK}layernorm_before",
        f"{_BLOCK}attention.query": f"{_THEIR_BLOCK}attention.self.query",
        f"{_BLOCK}attention.key": f"{_THEIR_BLOCK}attention.self.key",
        f"{_BLOCK}attention.value": f"{_THEIR_BLOCK}attention.self.value",
        f"{_BLOCK}attention.output": f"{_THEIR_BLOCK}attention.output.dense",
        f"{_BLOCK}mlp_residual.norm": f"{_THEIR_BLOCK}layernorm_after",
        f"{_BLOCK}mlp.expand": f"{_THEIR_BLOCK}intermediate.dense",
        f"{_BLOCK}mlp.contract": f"{_THEIR_BLOCK}output.dense",
        "stages.{}.merging.norm": "encoder.layers.{}.downsample.norm",
        "stages.{}.merging.reduction": "encoder.layers.{}.downsample.reduction",
        "norm": "layernorm",
        "head": "classifier",
    }
)
_MAP_NORM_EPS = 1e-5
"""Of the norms of patches and of merged neighbours, whatever config.json says."""
_TABLE = same({f"{_BLOCK}attention.position_bias.weight": f"{_THEIR_BLOCK}attention.self.relative_position_bias_table"})


def sizes(reference: ReferenceModel) -> dict[str, Any]:
    """The fields of our configuration that a ``config.json`` of Swin or SwinV2 gives.

    Raises:
        ConfigError: it asks for what our families do not do.
    """
    fields = reference.fields
    fields.only("use_absolute_embeddings", False)
    norm_eps = fields.number("layer_norm_eps", _MAP_NORM_EPS)
    # Of training and of other tasks; the last three follow from other fields.
    fields.without_effect("drop_path_rate", "encoder_stride", "out_features", "out_indices", "stage_names")
    fields.without_effect("path_norm", "hidden_size", "num_layers")
    return {
        "image_size": fields.size("image_size", 224),
        "patch_size": fields.size("patch_size", 4),
        "channels": fields.size("num_channels", 3),
        "classes": reference.classes(),
        "depths": one_a_stage(fields.get("depths", (2, 2, 6, 2))),
        "heads": one_a_stage(fields.get("num_heads", (3, 6, 12, 24))),
        "width": fields.size("embed_dim", 96),
        "window": fields.size("window_size", 7),
        "mlp_ratio": mlp_ratio(fields),
        "norm_eps": norm_eps,
        "map_norm_eps": None if norm_eps == _MAP_NORM_EPS else _MAP_NORM_EPS,
        "activation": fields.choice("hidden_act", ACTIVATION_NAMES, "gelu"),
        "qkv_bias": fields.flag("qkv_bias", True),
        "dropout": fields.number("hidden_dropout_prob", 0.0),
    }


def mlp_ratio(fields: Fields) -> int | float:
    """How many times as wide as its stage an MLP is."""
    ratio = fields.number("mlp_ratio", 4.0)
    return int(ratio) if ratio.is_integer() else ratio


def one_a_stage(values: Any) -> Any:
    """A list of JSON as our configurations want it; what is no list they refuse themselves."""
    return tuple(values) if isinstance(values, list) else values


def _config(reference: ReferenceModel) -> SwinConfig:
    return SwinConfig(**sizes(reference))


def _origins(config: SwinConfig) -> Table:
    return {**MODULES, **_TABLE}


SWIN = Architecture(
    model_type="swin",
    classes=("SwinForImageClassification",),
    family="swin",
    config_from=_config,
    origins=_origins,
    prefix="swin.",
    spellings=SPELLINGS,
    ignored=(r".*\.relative_position_index",),
)
