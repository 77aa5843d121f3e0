"""TimeSformer in Hugging Face's form, with a classifier's head: queries, keys and values are one.

Source: ``modeling_timesformer.py`` of transformers, its names and configuration. Its ``space_only`` lacks the average
over frames that the authors' code ends with, so that there is nothing to compare ours with.
"""

from models.checkpoints.importers.activations import ACTIVATION_NAMES
from models.checkpoints.importers.architecture import Architecture, ReferenceModel, Table, origin, part, same
from models.families.timesformer import SpaceTime, TimeSformerConfig

_FORMS: dict[str, SpaceTime] = {"divided_space_time": "divided", "joint_space_time": "joint"}
_AROUND = same(
    {
        "patches.projection": "embeddings.patch_embeddings.projection",
        "class_token": "embeddings.cls_token",
        "positions.table": "embeddings.position_embeddings",
        "times.table": "embeddings.time_embeddings",
        "blocks.{}.mlp_residual.norm": "encoder.layer.{}.layernorm_after",
        "blocks.{}.mlp.expand": "encoder.layer.{}.intermediate.dense",
        "blocks.{}.mlp.contract": "encoder.layer.{}.output.dense",
        "norm": "layernorm",
        "head": "classifier",
    }
)


def _attention(ours: str, theirs: str, residual: str, norm: str) -> Table:
    layer = f"encoder.layer.{{}}.{theirs}"
    return {
        f"blocks.{{}}.{residual}.norm": origin(f"encoder.layer.{{}}.{norm}"),
        f"blocks.{{}}.{ours}.query": origin(f"{layer}.attention.qkv", change=part(0, of=3)),
        f"blocks.{{}}.{ours}.key": origin(f"{layer}.attention.qkv", change=part(1, of=3)),
        f"blocks.{{}}.{ours}.value": origin(f"{layer}.attention.qkv", change=part(2, of=3)),
        f"blocks.{{}}.{ours}.output": origin(f"{layer}.output.dense"),
    }


_JOINT = {**_AROUND, **_attention("attention", "attention", "attention_residual", "layernorm_before")}
_DIVIDED = {
    **_AROUND,
    **_attention("space_attention", "attention", "space_residual", "layernorm_before"),
    **_attention("time_attention", "temporal_attention", "time_residual", "temporal_layernorm"),
    "blocks.{}.time_linear": origin("encoder.layer.{}.temporal_dense"),
}


def _origins(config: TimeSformerConfig) -> Table:
    return _DIVIDED if config.attention == "divided" else _JOINT


def _config(reference: ReferenceModel) -> TimeSformerConfig:
    fields = reference.fields
    fields.without_effect("drop_path_rate")
    return TimeSformerConfig(
        frames=fields.size("num_frames", 8),
        image_size=fields.size("image_size", 224),
        patch_size=fields.size("patch_size", 16),
        channels=fields.size("num_channels", 3),
        classes=reference.classes(),
        attention=fields.choice("attention_type", _FORMS, "divided_space_time"),
        layers=fields.size("num_hidden_layers", 12),
        width=fields.size("hidden_size", 768),
        heads=fields.size("num_attention_heads", 12),
        mlp_width=fields.size("intermediate_size", 3072),
        activation=fields.choice("hidden_act", ACTIVATION_NAMES, "gelu"),
        qkv_bias=fields.flag("qkv_bias", True),
        dropout=fields.number("hidden_dropout_prob", 0.0),
        norm_eps=fields.number("layer_norm_eps", 1e-6),
    )


TIMESFORMER = Architecture(
    model_type="timesformer",
    classes=("TimesformerForVideoClassification",),
    family="timesformer",
    config_from=_config,
    origins=_origins,
    prefix="timesformer.",
)
