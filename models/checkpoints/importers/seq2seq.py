"""What Marian and BART share in Hugging Face's form: fairseq's names for the parts of two stacks.

Source: ``modeling_marian.py`` and ``modeling_bart.py`` of transformers, their names and configurations.
"""

from typing import Any

from torch import Tensor

from attendant.errors import ConfigError
from models.checkpoints.importers.activations import ACTIVATION_NAMES
from models.checkpoints.importers.architecture import ReferenceModel, Table, origin, same
from models.families.seq2seq import Seq2SeqConfig

_PROJECTIONS = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "out_proj"}
_ENCODER = {
    **{f"attention.{ours}": f"self_attn.{theirs}" for ours, theirs in _PROJECTIONS.items()},
    "attention_residual.norm": "self_attn_layer_norm",
    "mlp.expand": "fc1",
    "mlp.contract": "fc2",
    "mlp_residual.norm": "final_layer_norm",
}
_DECODER = {
    **{f"self_attention.{ours}": f"self_attn.{theirs}" for ours, theirs in _PROJECTIONS.items()},
    **{f"cross_attention.{ours}": f"encoder_attn.{theirs}" for ours, theirs in _PROJECTIONS.items()},
    "self_residual.norm": "self_attn_layer_norm",
    "cross_residual.norm": "encoder_attn_layer_norm",
    "mlp.expand": "fc1",
    "mlp.contract": "fc2",
    "mlp_residual.norm": "final_layer_norm",
}
BLOCKS = same(
    {
        **{f"encoder.{{}}.{ours}": f"encoder.layers.{{}}.{theirs}" for ours, theirs in _ENCODER.items()},
        **{f"decoder.{{}}.{ours}": f"decoder.layers.{{}}.{theirs}" for ours, theirs in _DECODER.items()},
    }
)


def shared_origins(config: Seq2SeqConfig) -> Table:
    """Blocks, embeddings, head and the bias of the logits, which files of the bare model lack and zeros replace."""
    bias = {"logits_bias": origin("final_logits_bias", change=Tensor.flatten, optional=True)}
    if config.tied:
        names = ("shared", "encoder.embed_tokens", "decoder.embed_tokens", "lm_head")
        return {**BLOCKS, **bias, "embedding": origin(*names)}
    separate = {"embedding": "encoder.embed_tokens", "target_embedding": "decoder.embed_tokens", "head": "lm_head"}
    return {**BLOCKS, **bias, **same(separate)}


def seq2seq_config(reference: ReferenceModel, activation: str, **settings: Any) -> Seq2SeqConfig:
    """What Marian and BART say with the same fields.

    Args:
        reference: the folder.
        activation: where ``config.json`` names none.
        settings: the rest of the configuration.

    Raises:
        ConfigError: encoder and decoder differ in more than their number of blocks.
    """
    fields = reference.fields
    # Older files hold switches of fairseq that the other library never had; `num_hidden_layers` is a second name.
    for name in ("normalize_before", "add_final_layer_norm", "add_bias_logits", "is_decoder", "add_cross_attention"):
        fields.only(name, False)
    fields.without_effect("extra_pos_embeddings", "num_hidden_layers")
    layers, decoder_layers = fields.size("encoder_layers", 12), fields.size("decoder_layers", 12)
    return Seq2SeqConfig(
        vocabulary_size=fields.size("vocab_size"),
        layers=layers,
        decoder_layers=None if decoder_layers == layers else decoder_layers,
        width=fields.size("d_model", 1024),
        heads=_both(reference, "attention_heads", 16),
        mlp_width=_both(reference, "ffn_dim", 4096),
        activation=fields.choice("activation_function", ACTIVATION_NAMES, activation),
        scaled_embedding=fields.flag("scale_embedding", False),
        logits_bias=True,
        tied=fields.flag("tie_word_embeddings", True),
        dropout=fields.number("dropout", 0.1),
        pad_token=reference.token("pad_token_id"),
        start_token=reference.token("decoder_start_token_id"),
        end_token=reference.end_token(),
        **settings,
    )


def _both(reference: ReferenceModel, part: str, default: int) -> int:
    sizes = {side: reference.fields.size(f"{side}_{part}", default) for side in ("encoder", "decoder")}
    if len(set(sizes.values())) > 1:
        raise ConfigError(f"one {part} for encoder and decoder", str(sizes), "this model is not supported")
    return sizes["encoder"]
