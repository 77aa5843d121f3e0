"""transformers' VisionEncoderDecoder with our weights: ViT and GPT-2, or ViT and TrOCR's decoder."""

from typing import Any

import torch
from torch import Tensor, nn
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    TrOCRConfig,
    TrOCRForCausalLM,
    VisionEncoderDecoderModel,
    ViTConfig,
    ViTModel,
)

from models.families.vision_seq2seq import VisionSeq2Seq, VisionSeq2SeqConfig
from tests.models.families.captioning import ImageBatch
from tests.models.families.vision_encoder_weights import vit_settings
from tests.models.families.vit_weights import copy_up_to_the_head

_TROCR_PARTS = {
    "self_attention": "self_attn",
    "self_residual.norm": "self_attn_layer_norm",
    "cross_attention": "encoder_attn",
    "cross_residual.norm": "encoder_attn_layer_norm",
    "mlp.expand": "fc1",
    "mlp.contract": "fc2",
    "mlp_residual.norm": "final_layer_norm",
}
_PROJECTIONS = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "out_proj"}


def stranger_from_ours(ours: VisionSeq2Seq, **encoder_changes: object) -> Any:
    """The model that must compute what ours computes, of its element type."""
    gpt2 = ours.config.norm_order == "pre"
    encoder = ViTModel(ViTConfig(**{**vit_settings(ours.config.encoder), **encoder_changes}), add_pooling_layer=False)
    decoder = GPT2LMHeadModel(_gpt2(ours.config)) if gpt2 else TrOCRForCausalLM(_trocr(ours.config))
    theirs = VisionEncoderDecoderModel(encoder=encoder, decoder=decoder)
    theirs.to(ours.embedding.weight.dtype).eval().requires_grad_(False)
    copy_up_to_the_head(ours.encoder, theirs.encoder)
    if isinstance(ours.memory_projection, nn.Linear):
        theirs.enc_to_dec_proj.load_state_dict(ours.memory_projection.state_dict())
    (_fill_gpt2 if gpt2 else _fill_trocr)(ours, theirs.decoder)
    return theirs


def logits_by_stranger(ours: VisionSeq2Seq, batch: ImageBatch, **encoder_changes: object) -> Tensor:
    """Teacher forcing by the other library."""
    theirs = stranger_from_ours(ours, **encoder_changes)
    return theirs(pixel_values=batch.pixels, decoder_input_ids=batch.target_ids, use_cache=False).logits


def _fill_gpt2(ours: VisionSeq2Seq, theirs: Any) -> None:
    theirs.transformer.wte.weight.copy_(ours.embedding.weight)
    theirs.transformer.wpe.weight.copy_(ours.target_encoding.positions.weight)
    _copy(ours.decoder_end, theirs.transformer.ln_f)
    for block, layer in zip(ours.decoder, theirs.transformer.h, strict=True):
        _turn([block.self_attention.query, block.self_attention.key, block.self_attention.value], layer.attn.c_attn)
        _turn([block.self_attention.output], layer.attn.c_proj)
        _turn([block.cross_attention.query], layer.crossattention.q_attn)
        _turn([block.cross_attention.key, block.cross_attention.value], layer.crossattention.c_attn)
        _turn([block.cross_attention.output], layer.crossattention.c_proj)
        _turn([block.mlp.expand], layer.mlp.c_fc)
        _turn([block.mlp.contract], layer.mlp.c_proj)
        _copy(block.self_residual.norm, layer.ln_1)
        _copy(block.cross_residual.norm, layer.ln_cross_attn)
        _copy(block.mlp_residual.norm, layer.ln_2)


def _fill_trocr(ours: VisionSeq2Seq, theirs: Any) -> None:
    decoder = theirs.model.decoder
    decoder.embed_tokens.weight.copy_(ours.embedding.weight)
    decoder.embed_positions.weight.copy_(ours.target_encoding.positions.weight)
    if ours.config.embedding_norm:
        _copy(ours.target_encoding.norm, decoder.layernorm_embedding)
    if ours.head is not None:
        theirs.output_projection.weight.copy_(ours.head.weight)
    for block, layer in zip(ours.decoder, decoder.layers, strict=True):
        for our_name, their_name in _TROCR_PARTS.items():
            _copy(block.get_submodule(our_name), layer.get_submodule(their_name))


def _copy(ours: nn.Module, theirs: nn.Module) -> None:
    if hasattr(ours, "query"):
        for our_name, their_name in _PROJECTIONS.items():
            _copy(getattr(ours, our_name), getattr(theirs, their_name))
        return
    theirs.load_state_dict(ours.state_dict())


def _turn(ours: list[nn.Linear], theirs: nn.Module) -> None:
    # transformers' Conv1D holds its weight the other way round.
    theirs.weight.copy_(torch.cat([layer.weight for layer in ours]).T)
    theirs.bias.copy_(torch.cat([layer.bias for layer in ours]))


def _gpt2(config: VisionSeq2SeqConfig) -> GPT2Config:
    return GPT2Config(
        vocab_size=config.vocabulary_size,
        n_positions=config.max_target_length,
        n_embd=config.width,
        n_layer=config.decoder_blocks,
        n_head=config.heads,
        n_inner=config.mlp_width,
        is_decoder=True,
        add_cross_attention=True,
    )


def _trocr(config: VisionSeq2SeqConfig) -> TrOCRConfig:
    return TrOCRConfig(
        vocab_size=config.vocabulary_size,
        d_model=config.width,
        decoder_layers=config.decoder_blocks,
        decoder_attention_heads=config.heads,
        decoder_ffn_dim=config.mlp_width,
        activation_function=config.activation,
        max_position_embeddings=config.max_target_length,
        scale_embedding=config.scaled_embedding,
        layernorm_embedding=config.embedding_norm,
        cross_attention_hidden_size=config.encoder.width,
        tie_word_embeddings=config.tied,
        pad_token_id=config.pad_token,
        is_decoder=True,
        add_cross_attention=True,
    )
