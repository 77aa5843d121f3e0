"""GPT-2 in Hugging Face's form: matrices stand the other way round, and queries, keys and values are one.

Source: ``modeling_gpt2.py`` of transformers (``Conv1D`` holds ``[in, out]``), its names and configuration.
"""

from torch import Tensor

from models.checkpoints.importers.activations import ACTIVATION_NAMES
from models.checkpoints.importers.architecture import Architecture, Change, ReferenceModel, Table, origin, same
from models.families.decoder import DecoderConfig


def transpose(tensor: Tensor) -> Tensor:
    """A matrix ``[in, out]`` as ``[out, in]``; a bias as it is."""
    return tensor.mT if tensor.ndim == 2 else tensor


def transpose_part(number: int, of: int) -> Change:
    """Of a joint projection the one of that number, counted from 0, turned."""
    return lambda tensor: transpose(tensor.chunk(of, dim=-1)[number])


_MODULES: Table = {
    **same(
        {
            "positions": "wpe",
            "blocks.{}.attention_residual.norm": "h.{}.ln_1",
            "blocks.{}.mlp_residual.norm": "h.{}.ln_2",
            "norm": "ln_f",
        }
    ),
    "blocks.{}.attention.query": origin("h.{}.attn.c_attn", change=transpose_part(0, of=3)),
    "blocks.{}.attention.key": origin("h.{}.attn.c_attn", change=transpose_part(1, of=3)),
    "blocks.{}.attention.value": origin("h.{}.attn.c_attn", change=transpose_part(2, of=3)),
    "blocks.{}.attention.output": origin("h.{}.attn.c_proj", change=transpose),
    "blocks.{}.mlp.expand": origin("h.{}.mlp.c_fc", change=transpose),
    "blocks.{}.mlp.contract": origin("h.{}.mlp.c_proj", change=transpose),
}


def _origins(config: DecoderConfig) -> Table:
    if config.tied:
        return {**_MODULES, "embedding": origin("wte", "lm_head")}
    return {**_MODULES, "embedding": origin("wte"), "head": origin("lm_head")}


def _config(reference: ReferenceModel) -> DecoderConfig:
    fields = reference.fields
    fields.only("scale_attn_weights", True)
    fields.only("scale_attn_by_inverse_layer_idx", False)
    fields.only("add_cross_attention", False)
    # `n_ctx` is an old copy of `n_positions`; the other changes how half precision is computed, not what.
    fields.without_effect("n_ctx", "reorder_and_upcast_attn", "is_decoder")
    width, heads, length = fields.size("n_embd", 768), fields.size("n_head", 12), fields.size("n_positions", 1024)
    return DecoderConfig(
        vocabulary_size=fields.size("vocab_size", 50257),
        layers=fields.size("n_layer", 12),
        width=width,
        heads=heads,
        kv_heads=heads,
        head_size=max(1, width // heads),
        mlp_width=fields.size("n_inner", 4 * width),
        max_length=reference.length(length),
        position_table=length,
        norm="layer",
        norm_eps=fields.number("layer_norm_epsilon", 1e-5),
        activation=fields.choice("activation_function", ACTIVATION_NAMES, "gelu_new"),
        gated_mlp=False,
        qkv_bias=True,
        output_bias=True,
        tied=fields.flag("tie_word_embeddings", True),
        dropout=fields.number("resid_pdrop", 0.1),
    )


GPT2 = Architecture(
    model_type="gpt2",
    classes=("GPT2LMHeadModel", "GPT2Model"),
    family="decoder",
    config_from=_config,
    origins=_origins,
    prefix="transformer.",
    ignored=(r"h\.\d+\.attn\.(bias|masked_bias)",),
    input_first=True,
)
