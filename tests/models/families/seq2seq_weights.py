"""transformers' Marian, BART and mBART with our weights: the same architectures in other people's code.

Their position tables are sinusoids, sines first, in Marian, and learned in the other two. Where ours alternates,
Marian's table is replaced by ours; where ours is concatenated, Marian keeps its own.
"""

from typing import Any

from torch import nn
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    MarianConfig,
    MarianMTModel,
    MBartConfig,
    MBartForConditionalGeneration,
)

from models.families.seq2seq import Seq2SeqConfig, Seq2SeqTransformer

_ENCODER_PARTS = {
    "attention": "self_attn",
    "attention_residual.norm": "self_attn_layer_norm",
    "mlp.expand": "fc1",
    "mlp.contract": "fc2",
    "mlp_residual.norm": "final_layer_norm",
}
_DECODER_PARTS = {
    "self_attention": "self_attn",
    "self_residual.norm": "self_attn_layer_norm",
    "cross_attention": "encoder_attn",
    "cross_residual.norm": "encoder_attn_layer_norm",
    "mlp.expand": "fc1",
    "mlp.contract": "fc2",
    "mlp_residual.norm": "final_layer_norm",
}
_PROJECTIONS = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "out_proj"}


def stranger_from_ours(ours: Seq2SeqTransformer) -> Any:
    """The model that must compute what ours computes: of its positions, its norms and its element type."""
    config = ours.config
    theirs = _empty(config).to(ours.embedding.weight.dtype).eval().requires_grad_(False)
    _copy_embeddings(ours, theirs)
    halves = (
        (theirs.model.encoder, ours.encoder, ours.encoder_end, ours.source_encoding, _ENCODER_PARTS),
        (theirs.model.decoder, ours.decoder, ours.decoder_end, ours.target_encoding, _DECODER_PARTS),
    )
    for half, blocks, end, encoding, parts in halves:
        if config.positions != "concatenated":
            _copy_positions(encoding.positions, half.embed_positions)
        for name, norm in (("layernorm_embedding", encoding.norm), ("layer_norm", end)):
            if hasattr(half, name):
                _copy(norm, getattr(half, name))
        for our_block, their_block in zip(blocks, half.layers, strict=True):
            for our_name, their_name in parts.items():
                _copy(our_block.get_submodule(our_name), their_block.get_submodule(their_name))
    return theirs


def _empty(config: Seq2SeqConfig) -> Any:
    if config.positions != "learned":
        return MarianMTModel(MarianConfig(share_encoder_decoder_embeddings=config.tied, **_settings(config)))
    if config.norm_order == "post":
        return BartForConditionalGeneration(BartConfig(**_settings(config)))
    return MBartForConditionalGeneration(MBartConfig(**_settings(config)))


def _settings(config: Seq2SeqConfig) -> dict[str, Any]:
    return {
        "vocab_size": config.vocabulary_size,
        "d_model": config.width,
        "encoder_layers": config.layers,
        "decoder_layers": config.decoder_blocks,
        "encoder_attention_heads": config.heads,
        "decoder_attention_heads": config.heads,
        "encoder_ffn_dim": config.mlp_width,
        "decoder_ffn_dim": config.mlp_width,
        "max_position_embeddings": max(config.max_source_length, config.max_target_length),
        "activation_function": config.activation,
        "scale_embedding": config.scaled_embedding,
        "tie_word_embeddings": config.tied,
        "pad_token_id": config.pad_token,
        "decoder_start_token_id": config.start_token,
        "eos_token_id": config.end_token,
        "forced_eos_token_id": None,
    }


def _copy_embeddings(ours: Seq2SeqTransformer, theirs: Any) -> None:
    if ours.config.tied:
        theirs.model.shared.weight.copy_(ours.embedding.weight)
    else:
        theirs.model.encoder.embed_tokens.weight.copy_(ours.embedding.weight)
        theirs.model.decoder.embed_tokens.weight.copy_(ours.target_embedding.weight)
        theirs.lm_head.weight.copy_(ours.head.weight)
    if ours.logits_bias is not None:
        theirs.final_logits_bias.copy_(ours.logits_bias)


def _copy_positions(ours: nn.Module, theirs: nn.Module) -> None:
    rows = ours.weight if hasattr(ours, "weight") else ours.table
    theirs.weight[: len(rows)].copy_(rows)


def _copy(ours: nn.Module, theirs: nn.Module) -> None:
    if hasattr(ours, "query"):
        for our_name, their_name in _PROJECTIONS.items():
            _copy(getattr(ours, our_name), getattr(theirs, their_name))
        return
    theirs.weight.copy_(ours.weight)
    theirs.bias.zero_() if ours.bias is None else theirs.bias.copy_(ours.bias)
