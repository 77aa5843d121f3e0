"""torch.nn's Transformer layers with our weights; embeddings and positions stay ours and are passed in."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.families.encoder_decoder import CrossDecoder
from models.families.seq2seq import Seq2SeqTransformer, StackConfig
from models.layers.attention import MultiHeadAttention
from models.layers.blocks import DecoderBlock
from tests.models.families.translation import Batch

ACTIVATIONS = {"relu": F.relu, "gelu": F.gelu, "silu": F.silu}


def logits_by_torch(ours: Seq2SeqTransformer, encoder: nn.Module, decoder: nn.Module, batch: Batch) -> Tensor:
    """Logits by torch's layers between our embedding and our output matrix."""
    padding = ~batch.source_mask
    length = batch.target_ids.shape[1]
    future = torch.ones(length, length, dtype=torch.bool).triu(1)
    memory = encoder(_embedded(ours, batch.source_ids), src_key_padding_mask=padding)
    hidden = decoder(_embedded(ours, batch.target_ids), memory, tgt_mask=future, memory_key_padding_mask=padding)
    return hidden @ ours.embedding.weight.T


def torch_halves_from_ours(ours: Seq2SeqTransformer) -> tuple[nn.TransformerEncoder, nn.TransformerDecoder]:
    """Encoder and decoder; final norms only behind pre-norm layers, for the paper has none."""
    layer = nn.TransformerEncoderLayer(**_layer_settings(ours.config))
    return stack_from_ours(ours.encoder, layer, _end(ours.encoder_end)), torch_decoder_from_ours(ours)


def torch_decoder_from_ours(ours: CrossDecoder) -> nn.TransformerDecoder:
    """The decoder alone."""
    layer = nn.TransformerDecoderLayer(**_layer_settings(ours.config))
    decoder = nn.TransformerDecoder(layer, len(ours.decoder), norm=_end(ours.decoder_end))
    _fill(decoder, ours.decoder)
    return decoder


def stack_from_ours(blocks: nn.ModuleList, layer: nn.Module, end: nn.Module | None) -> nn.TransformerEncoder:
    """An encoder of such layers with the weights of our blocks."""
    # With the nested-tensor path the encoder would answer zeros at padding, which nothing here looks at, and warn.
    encoder = nn.TransformerEncoder(layer, len(blocks), norm=end, enable_nested_tensor=False)
    _fill(encoder, blocks)
    return encoder


def _fill(half: nn.Module, blocks: nn.ModuleList) -> None:
    half.to(next(blocks.parameters()).dtype).eval().requires_grad_(False)
    for block, layer in zip(blocks, half.layers, strict=True):
        _copy_block(block, layer)


def _end(ours: nn.Module) -> nn.Module | None:
    if isinstance(ours, nn.Identity):
        return None
    theirs = nn.LayerNorm(ours.weight.shape)
    theirs.load_state_dict(ours.state_dict())
    return theirs


def _layer_settings(config: StackConfig) -> dict[str, object]:
    return {
        "d_model": config.width,
        "nhead": config.heads,
        "dim_feedforward": config.mlp_width,
        "dropout": 0.0,
        "activation": ACTIVATIONS[config.activation],
        "batch_first": True,
        "norm_first": config.norm_order == "pre",
        "layer_norm_eps": 1e-5,
    }


def _embedded(ours: Seq2SeqTransformer, token_ids: Tensor) -> Tensor:
    scaled = ours.embedding.weight[token_ids] * ours.config.width**0.5
    return scaled + ours.source_encoding.positions.table[: token_ids.shape[1]]


def _copy_block(block: nn.Module, layer: nn.Module) -> None:
    cross = isinstance(block, DecoderBlock)
    _copy_attention(block.self_attention if cross else block.attention, layer.self_attn)
    residuals = [block.self_residual, block.cross_residual] if cross else [block.attention_residual]
    if cross:
        _copy_attention(block.cross_attention, layer.multihead_attn)
    pairs = [(block.mlp.expand, layer.linear1), (block.mlp.contract, layer.linear2)]
    norms = [residual.norm for residual in (*residuals, block.mlp_residual)]
    pairs += [(norm, getattr(layer, f"norm{number}")) for number, norm in enumerate(norms, start=1)]
    for ours, theirs in pairs:
        theirs.load_state_dict(ours.state_dict())


def _copy_attention(ours: MultiHeadAttention, theirs: nn.MultiheadAttention) -> None:
    projections = ours.query, ours.key, ours.value
    theirs.in_proj_weight.copy_(torch.cat([projection.weight for projection in projections]))
    theirs.in_proj_bias.copy_(torch.cat([projection.bias for projection in projections]))
    theirs.out_proj.load_state_dict(ours.output.state_dict())
