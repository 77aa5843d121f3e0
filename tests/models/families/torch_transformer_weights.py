"""torch.nn's Transformer layers with our weights; embeddings and positions stay ours and are passed in."""

import torch
from torch import Tensor, nn

from models.families.seq2seq import Seq2SeqConfig, Seq2SeqTransformer
from models.layers.attention import MultiHeadAttention
from tests.models.families.translation import Batch


def logits_by_torch(ours: Seq2SeqTransformer, encoder: nn.Module, decoder: nn.Module, batch: Batch) -> Tensor:
    """Logits by torch's layers between our embedding and our output matrix."""
    padding = ~batch.source_mask
    length = batch.target_ids.shape[1]
    future = torch.ones(length, length, dtype=torch.bool).triu(1)
    memory = encoder(_embedded(ours, batch.source_ids), src_key_padding_mask=padding)
    hidden = decoder(_embedded(ours, batch.target_ids), memory, tgt_mask=future, memory_key_padding_mask=padding)
    return hidden @ ours.embedding.weight.T


def torch_halves_from_ours(ours: Seq2SeqTransformer) -> tuple[nn.TransformerEncoder, nn.TransformerDecoder]:
    """Encoder and decoder without final norms, as the paper has them."""
    settings = _layer_settings(ours.config)
    # With the nested-tensor path the encoder would answer zeros at padding, which nothing here looks at, and warn.
    encoder = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(**settings), ours.config.layers, norm=None, enable_nested_tensor=False
    )
    decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(**settings), ours.config.layers, norm=None)
    for half, blocks in ((encoder, ours.encoder), (decoder, ours.decoder)):
        half.to(ours.embedding.weight.dtype).eval().requires_grad_(False)
        for block, layer in zip(blocks, half.layers, strict=True):
            _copy_block(block, layer)
    return encoder, decoder


def _layer_settings(config: Seq2SeqConfig) -> dict[str, object]:
    return {
        "d_model": config.width,
        "nhead": config.heads,
        "dim_feedforward": config.mlp_width,
        "dropout": 0.0,
        "activation": "relu",
        "batch_first": True,
        "norm_first": False,
        "layer_norm_eps": 1e-5,
    }


def _embedded(ours: Seq2SeqTransformer, token_ids: Tensor) -> Tensor:
    scaled = ours.embedding.weight[token_ids] * ours.config.width**0.5
    return scaled + ours.positions.table[: token_ids.shape[1]]


def _copy_block(block: nn.Module, layer: nn.Module) -> None:
    cross = hasattr(block, "cross_attention")
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
