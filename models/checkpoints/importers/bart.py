"""BART in Hugging Face's form: post-norm, learned positions behind two unused rows, normalised embeddings.

Source: ``modeling_bart.py`` of transformers, its names and configuration.
"""

from models.checkpoints.importers.architecture import Architecture, ReferenceModel, Table, first_rows, origin, same
from models.checkpoints.importers.seq2seq import seq2seq_config, shared_origins
from models.families.seq2seq import Seq2SeqConfig

_OFFSET = 2
# Where nothing is tied, encoder and decoder have tables of their own, and this one is written but never looked at.
_UNUSED = (r"shared\.weight",)
_NORMS = same(
    {
        "source_encoding.norm": "encoder.layernorm_embedding",
        "target_encoding.norm": "decoder.layernorm_embedding",
    }
)


def _origins(config: Seq2SeqConfig) -> Table:
    source, target = first_rows(config.max_source_length + _OFFSET), first_rows(config.max_target_length + _OFFSET)
    return {
        **shared_origins(config),
        **_NORMS,
        "source_encoding.positions": origin("encoder.embed_positions", change=source),
        "target_encoding.positions": origin("decoder.embed_positions", change=target),
    }


def _config(reference: ReferenceModel) -> Seq2SeqConfig:
    fields = reference.fields
    fields.only("static_position_embeddings", False)
    fields.only("normalize_embedding", True)
    length = reference.length(fields.size("max_position_embeddings", 1024))
    return seq2seq_config(
        reference,
        "gelu",
        positions="learned",
        embedding_norm=True,
        max_source_length=length,
        max_target_length=length,
    )


BART = Architecture(
    model_type="bart",
    classes=("BartForConditionalGeneration", "BartModel"),
    family="seq2seq",
    config_from=_config,
    origins=_origins,
    prefix="model.",
    ignored=_UNUSED,
)
