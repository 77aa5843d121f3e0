"""transformers' BERT with our weights: the same architecture in other people's code."""

from transformers import BertConfig, BertModel

from models.families.encoder import Encoder

_BLOCK_PARTS = {
    "attention.query": "attention.self.query",
    "attention.key": "attention.self.key",
    "attention.value": "attention.self.value",
    "attention.output": "attention.output.dense",
    "attention_residual.norm": "attention.output.LayerNorm",
    "mlp.expand": "intermediate.dense",
    "mlp.contract": "output.dense",
    "mlp_residual.norm": "output.LayerNorm",
}


def bert_from_ours(ours: Encoder) -> BertModel:
    """A BERT that must compute what ours computes, of the same element type."""
    config = ours.config
    theirs = BertModel(
        BertConfig(
            vocab_size=config.vocabulary_size,
            hidden_size=config.width,
            num_hidden_layers=config.layers,
            num_attention_heads=config.heads,
            intermediate_size=config.mlp_width,
            hidden_act=config.activation,
            max_position_embeddings=config.max_length,
            type_vocab_size=config.token_types,
            layer_norm_eps=config.norm_eps,
            pad_token_id=config.pad_token,
        )
    )
    theirs.to(ours.embedding.weight.dtype).eval().requires_grad_(False)
    embeddings = theirs.embeddings
    embeddings.word_embeddings.weight.copy_(ours.embedding.weight)
    embeddings.position_embeddings.weight.copy_(ours.positions.weight)
    pairs = [
        (ours.token_types, embeddings.token_type_embeddings),
        (ours.norm, embeddings.LayerNorm),
        (ours.pooler, theirs.pooler.dense),
    ]
    for our_block, their_block in zip(ours.blocks, theirs.encoder.layer, strict=True):
        parts = _BLOCK_PARTS.items()
        pairs += [(our_block.get_submodule(name), their_block.get_submodule(other)) for name, other in parts]
    for our_part, their_part in pairs:
        their_part.load_state_dict(our_part.state_dict())
    return theirs
