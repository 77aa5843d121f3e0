"""Transformer in Transformer in timm's form: one matrix for queries and keys, and the positions of words as an image.

Source: ``tnt.py`` of timm, its names; files of the authors have others, and their words' positions stand in a row. The
sizes follow from the architecture's name, which timm's ``config.json`` gives in place of a ``model_type``.
"""

from dataclasses import replace

from torch import Tensor

from models.checkpoints.importers.architecture import Architecture, ReferenceModel, Table, origin, part, same
from models.checkpoints.importers.timm import mlp_width, resize_config
from models.families.tnt import TNTConfig
from models.presets.tnt import PRESETS

_SIZES: dict[str, TNTConfig] = {
    "tnt_s_patch16_224": PRESETS["tnt-s"].config,
    "tnt_b_patch16_224": PRESETS["tnt-b"].config,
}
_NAMES = {
    "img_size": "image_size",
    "patch_size": "patch_size",
    "first_stride": "word_size",
    "in_chans": "channels",
    "depth": "layers",
    "embed_dim": "width",
    "num_heads_outer": "heads",
    "inner_dim": "inner_width",
    "num_heads_inner": "inner_heads",
}


def _in_a_row(positions: Tensor) -> Tensor:
    return positions.flatten(2).mT if positions.ndim == 4 else positions


def _vision_block(ours: str, attention: str, attention_norm: str, mlp: str, mlp_norm: str) -> Table:
    return {
        f"blocks.{{}}.{ours}.attention_residual.norm": origin(f"blocks.{{}}.{attention_norm}"),
        f"blocks.{{}}.{ours}.attention.query": origin(f"blocks.{{}}.{attention}.qk", change=part(0, of=2)),
        f"blocks.{{}}.{ours}.attention.key": origin(f"blocks.{{}}.{attention}.qk", change=part(1, of=2)),
        f"blocks.{{}}.{ours}.attention.value": origin(f"blocks.{{}}.{attention}.v"),
        f"blocks.{{}}.{ours}.attention.output": origin(f"blocks.{{}}.{attention}.proj"),
        f"blocks.{{}}.{ours}.mlp_residual.norm": origin(f"blocks.{{}}.{mlp_norm}"),
        f"blocks.{{}}.{ours}.mlp.expand": origin(f"blocks.{{}}.{mlp}.fc1"),
        f"blocks.{{}}.{ours}.mlp.contract": origin(f"blocks.{{}}.{mlp}.fc2"),
    }


_MODULES: Table = {
    **same(
        {
            "words.projection": "pixel_embed.proj",
            "projection.norm": "norm1_proj",
            "projection.linear": "proj",
            "projection.output_norm": "norm2_proj",
            "class_token": "cls_token",
            "positions.table": "patch_pos",
            "blocks.{}.projection.norm": "blocks.{}.norm1_proj",
            "blocks.{}.projection.linear": "blocks.{}.proj",
            "blocks.{}.projection.output_norm": "blocks.{}.norm2_proj",
            "norm": "norm",
            "head": "head",
        }
    ),
    "words.positions.table": origin("pixel_pos", change=_in_a_row),
    **_vision_block("inner", "attn_in", "norm_in", "mlp_in", "norm_mlp_in"),
    **_vision_block("outer", "attn_out", "norm_out", "mlp", "norm_mlp"),
}


def _origins(config: TNTConfig) -> Table:
    return _MODULES


def _config(reference: ReferenceModel) -> TNTConfig:
    fields = reference.fields
    fields.only("global_pool", "token")
    fields.only("legacy", False)
    named = fields.choice("architecture", _SIZES, "")
    sized = resize_config(fields, named, _NAMES)
    inner_ratio = named.inner_mlp_width // named.inner_width  # timm has no argument for it
    return replace(
        sized,
        mlp_width=mlp_width(fields, sized.width, named.mlp_width / named.width),
        inner_mlp_width=inner_ratio * sized.inner_width,
    )


TIMM_TNT = Architecture(
    model_type="timm tnt",
    classes=tuple(_SIZES),
    family="tnt",
    config_from=_config,
    origins=_origins,
    spellings=(
        (r"^outer_pos$", "patch_pos"),
        (r"^inner_pos$", "pixel_pos"),
        (r"^patch_embed\.", "pixel_embed."),
        (r"proj_norm(\d)\.", r"norm\1_proj."),
        (r"inner_norm1\.", "norm_in."),
        (r"inner_norm2\.", "norm_mlp_in."),
        (r"inner_(attn|mlp)\.", r"\1_in."),
        (r"outer_norm1\.", "norm_out."),
        (r"outer_norm2\.", "norm_mlp."),
        (r"outer_attn\.", "attn_out."),
        (r"outer_mlp\.", "mlp."),
    ),
    ignored=("outer_tokens",),
    library="timm",
)
