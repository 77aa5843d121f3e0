"""BERT in Hugging Face's form, without the heads of its training tasks.

Source: ``modeling_bert.py`` of transformers, its names and configuration; files from before 2020 call a norm's scale
``gamma`` and its shift ``beta``.
"""

from models.checkpoints.importers.activations import ACTIVATION_NAMES
from models.checkpoints.importers.architecture import Architecture, ReferenceModel, Table, first_rows, origin, same
from models.families.encoder import EncoderConfig

_MODULES = same(
    {
        "embedding": "embeddings.word_embeddings",
        "token_types": "embeddings.token_type_embeddings",
        "norm": "embeddings.LayerNorm",
        "blocks.{}.attention.query": "encoder.layer.{}.attention.self.query",
        "blocks.{}.attention.key": "encoder.layer.{}.attention.self.key",
        "blocks.{}.attention.value": "encoder.layer.{}.attention.self.value",
        "blocks.{}.attention.output": "encoder.layer.{}.attention.output.dense",
        "blocks.{}.attention_residual.norm": "encoder.layer.{}.attention.output.LayerNorm",
        "blocks.{}.mlp.expand": "encoder.layer.{}.intermediate.dense",
        "blocks.{}.mlp.contract": "encoder.layer.{}.output.dense",
        "blocks.{}.mlp_residual.norm": "encoder.layer.{}.output.LayerNorm",
        "pooler": "pooler.dense",
    }
)

# Multilingual BERT's configuration describes a pooler that the library never had.
_NEVER_READ = (
    "directionality",
    "pooler_fc_size",
    "pooler_num_attention_heads",
    "pooler_num_fc_layers",
    "pooler_size_per_head",
    "pooler_type",
)


def _origins(config: EncoderConfig) -> Table:
    positions = origin("embeddings.position_embeddings", change=first_rows(config.max_length))
    return {**_MODULES, "positions": positions}


def _config(reference: ReferenceModel) -> EncoderConfig:
    fields = reference.fields
    fields.only("position_embedding_type", "absolute")
    fields.only("is_decoder", False)
    fields.only("add_cross_attention", False)
    # Whether the head that is left out shares the embedding.
    pooler = "pooler.dense.weight" in reference.names
    if not pooler:
        reference.notes.append("no pooler in the file: a text's vector is the mean of its tokens'")
    fields.without_effect("tie_word_embeddings", *_NEVER_READ)
    return EncoderConfig(
        vocabulary_size=fields.size("vocab_size", 30522),
        token_types=fields.size("type_vocab_size", 2),
        layers=fields.size("num_hidden_layers", 12),
        width=fields.size("hidden_size", 768),
        heads=fields.size("num_attention_heads", 12),
        mlp_width=fields.size("intermediate_size", 3072),
        activation=fields.choice("hidden_act", ACTIVATION_NAMES, "gelu"),
        max_length=reference.length(fields.size("max_position_embeddings", 512)),
        dropout=fields.number("hidden_dropout_prob", 0.1),
        norm_eps=fields.number("layer_norm_eps", 1e-12),
        pad_token=fields.get("pad_token_id") or 0,
        pooler=pooler,
    )


BERT = Architecture(
    model_type="bert",
    classes=("BertModel", "BertForPreTraining", "BertForMaskedLM", "BertForNextSentencePrediction"),
    family="encoder",
    config_from=_config,
    origins=_origins,
    prefix="bert.",
    spellings=((r"LayerNorm\.gamma$", "LayerNorm.weight"), (r"LayerNorm\.beta$", "LayerNorm.bias")),
    ignored=(r"embeddings\.position_ids", r"cls\..*"),
)
