"""transformers' T5 with our weights: the same architecture in other people's code.

transformers 5 ties the head of every T5 that it builds. Only a file whose head differs from its embedding unties them,
which is what happens here where ours is untied.
"""

from typing import Any

from torch import nn
from transformers import T5Config as TheirConfig
from transformers import T5ForConditionalGeneration

from models.families.t5 import T5, T5Config

_PROJECTIONS = {"query": "q", "key": "k", "value": "v", "output": "o"}
_ENCODER_PARTS = {
    "attention_residual.norm": "layer.0.layer_norm",
    **{f"attention.{ours}": f"layer.0.SelfAttention.{theirs}" for ours, theirs in _PROJECTIONS.items()},
    "mlp_residual.norm": "layer.1.layer_norm",
    "mlp": "layer.1.DenseReluDense",
}
_DECODER_PARTS = {
    "self_residual.norm": "layer.0.layer_norm",
    **{f"self_attention.{ours}": f"layer.0.SelfAttention.{theirs}" for ours, theirs in _PROJECTIONS.items()},
    "cross_residual.norm": "layer.1.layer_norm",
    **{f"cross_attention.{ours}": f"layer.1.EncDecAttention.{theirs}" for ours, theirs in _PROJECTIONS.items()},
    "mlp_residual.norm": "layer.2.layer_norm",
    "mlp": "layer.2.DenseReluDense",
}
_MLP = {"expand": "wi", "contract": "wo"}
_GATED_MLP = {"gate": "wi_0", "expand": "wi_1", "contract": "wo"}


def stranger_from_ours(ours: T5) -> T5ForConditionalGeneration:
    """A T5 that must compute what ours computes, of the same element type."""
    theirs = T5ForConditionalGeneration(TheirConfig(**_settings(ours.config)))
    if ours.head is not None:
        theirs.lm_head.weight = nn.Parameter(ours.head.weight.clone())
    theirs.to(ours.embedding.weight.dtype).eval().requires_grad_(False)
    theirs.shared.weight.copy_(ours.embedding.weight)
    halves = (
        (theirs.encoder, ours.encoder, ours.encoder_bias, ours.encoder_end, _ENCODER_PARTS),
        (theirs.decoder, ours.decoder, ours.decoder_bias, ours.decoder_end, _DECODER_PARTS),
    )
    for half, blocks, bias, end, parts in halves:
        half.block[0].layer[0].SelfAttention.relative_attention_bias.weight.copy_(bias.weight)
        half.final_layer_norm.weight.copy_(end.norm.weight)
        for our_block, their_block in zip(blocks, half.block, strict=True):
            for our_name, their_name in parts.items():
                _copy(our_block.get_submodule(our_name), their_block.get_submodule(their_name))
    return theirs


def _settings(config: T5Config) -> dict[str, Any]:
    return {
        "vocab_size": config.vocabulary_size,
        "d_model": config.width,
        "d_kv": config.head_size,
        "d_ff": config.mlp_width,
        "num_layers": config.layers,
        "num_decoder_layers": config.decoder_blocks,
        "num_heads": config.heads,
        "relative_attention_num_buckets": config.distance_buckets,
        "relative_attention_max_distance": config.longest_distance,
        "layer_norm_epsilon": config.norm_eps,
        "feed_forward_proj": "gated-gelu" if config.gated_mlp else config.activation,
        "tie_word_embeddings": config.tied,
        "pad_token_id": config.pad_token,
        "decoder_start_token_id": config.start_token,
        "eos_token_id": config.end_token,
    }


def _copy(ours: nn.Module, theirs: nn.Module) -> None:
    if hasattr(ours, "expand"):
        for our_name, their_name in (_GATED_MLP if hasattr(ours, "gate") else _MLP).items():
            _copy(getattr(ours, our_name), getattr(theirs, their_name))
        return
    theirs.weight.copy_(ours.weight)
