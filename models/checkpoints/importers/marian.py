"""Marian in Hugging Face's form: post-norm, sinusoids in two halves, which are computed and not read.

Source: ``modeling_marian.py`` of transformers, its names and configuration.
"""

from attendant.errors import ConfigError
from models.checkpoints.importers.architecture import Architecture, ReferenceModel
from models.checkpoints.importers.seq2seq import seq2seq_config, shared_origins
from models.families.seq2seq import Seq2SeqConfig


def _config(reference: ReferenceModel) -> Seq2SeqConfig:
    fields = reference.fields
    fields.only("static_position_embeddings", True)
    fields.only("normalize_embedding", False)
    fields.only("share_encoder_decoder_embeddings", True)
    source, target = reference.fields.size("vocab_size", 58101), reference.fields.get("decoder_vocab_size")
    if target is not None and target != source:
        raise ConfigError(f"one vocabulary, of {source} tokens", f"decoder_vocab_size {target}", "not supported")
    length = reference.length(fields.size("max_position_embeddings", 1024))
    return seq2seq_config(
        reference, "gelu", positions="concatenated", max_source_length=length, max_target_length=length
    )


MARIAN = Architecture(
    model_type="marian",
    classes=("MarianMTModel", "MarianModel"),
    family="seq2seq",
    config_from=_config,
    origins=shared_origins,
    prefix="model.",
    ignored=(r"(encoder|decoder)\.embed_positions\.weight", r"shared\.weight"),
)
