"""Marian in Hugging Face's form: post-norm, sinusoids in two halves, which are computed and not read.

Source: ``modeling_marian.py`` of transformers, its names and configuration.
"""

from __future__ import annotations

from attendant.errors import ConfigError
from models.checkpoints.importers.architecture import Architecture, Foreign
from models.checkpoints.importers.seq2seq import seq2seq_config, shared_origins
from models.families.seq2seq import Seq2SeqConfig


def _config(foreign: Foreign) -> Seq2SeqConfig:
    fields = foreign.fields
    fields.only("static_position_embeddings", True)
    fields.only("normalize_embedding", False)
    fields.only("share_encoder_decoder_embeddings", True)
    source, target = foreign.fields.size("vocab_size", 58101), foreign.fields.get("decoder_vocab_size")
    if target is not None and target != source:
        raise ConfigError(f"one vocabulary, of {source} tokens", f"decoder_vocab_size {target}", "not supported")
    length = foreign.length(fields.size("max_position_embeddings", 1024))
    return seq2seq_config(foreign, "gelu", positions="concatenated", max_source_length=length, max_target_length=length)


MARIAN = Architecture(
    model_type="marian",
    classes=("MarianMTModel", "MarianModel"),
    family="seq2seq",
    config_from=_config,
    origins=shared_origins,
    prefix="model.",
    ignored=(r"(encoder|decoder)\.embed_positions\.weight", r"shared\.weight"),
)
