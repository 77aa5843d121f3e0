"""transformers' Marian with our weights: the same architecture in other people's code.

Its position table holds the sines first and the cosines behind them; ours alternates, so ours is put in its place.
"""

from torch import nn
from transformers import MarianConfig, MarianMTModel

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


def marian_from_ours(ours: Seq2SeqTransformer) -> MarianMTModel:
    """A Marian model that must compute what ours computes, of the same element type."""
    theirs = MarianMTModel(_marian_config(ours.config)).to(ours.embedding.weight.dtype).eval().requires_grad_(False)
    theirs.model.shared.weight.copy_(ours.embedding.weight)
    theirs.final_logits_bias.zero_()
    for half, parts in (("encoder", _ENCODER_PARTS), ("decoder", _DECODER_PARTS)):
        target = getattr(theirs.model, half)
        target.embed_positions.weight.copy_(ours.positions.table)
        for our_block, their_block in zip(getattr(ours, half), target.layers, strict=True):
            for our_name, their_name in parts.items():
                _copy(our_block.get_submodule(our_name), their_block.get_submodule(their_name))
    return theirs


def _marian_config(config: Seq2SeqConfig) -> MarianConfig:
    return MarianConfig(
        vocab_size=config.vocabulary_size,
        d_model=config.width,
        encoder_layers=config.layers,
        decoder_layers=config.layers,
        encoder_attention_heads=config.heads,
        decoder_attention_heads=config.heads,
        encoder_ffn_dim=config.mlp_width,
        decoder_ffn_dim=config.mlp_width,
        max_position_embeddings=max(config.max_source_length, config.max_target_length),
        activation_function="relu",
        scale_embedding=True,
        tie_word_embeddings=True,
        pad_token_id=config.pad_token,
        decoder_start_token_id=config.start_token,
        eos_token_id=config.end_token,
        forced_eos_token_id=None,
    )


def _copy(ours: nn.Module, theirs: nn.Module) -> None:
    if hasattr(ours, "query"):
        for our_name, their_name in _PROJECTIONS.items():
            _copy(getattr(ours, our_name), getattr(theirs, their_name))
        return
    theirs.weight.copy_(ours.weight)
    theirs.bias.zero_() if ours.bias is None else theirs.bias.copy_(ours.bias)
