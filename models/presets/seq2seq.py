"""Presets of the Transformer encoder-decoder: the paper's (Vaswani et al. 2017, table 3), Marian's and BART's.

Marian's are the sizes of the Helsinki-NLP ``opus-mt`` models; BART base is that of Lewis et al. 2020, section 2.1.
"""

from dataclasses import replace
from typing import Any

from models.families.seq2seq import Seq2SeqConfig
from models.presets.preset import Preset

_TINY: dict[str, Any] = {
    "vocabulary_size": 31,
    "layers": 2,
    "width": 16,
    "heads": 2,
    "mlp_width": 32,
    "max_source_length": 12,
    "max_target_length": 8,
}
_PAPER = {
    "transformer-base": Seq2SeqConfig(vocabulary_size=37000, attention_bias=False),
    "transformer-big": Seq2SeqConfig(
        vocabulary_size=37000, width=1024, heads=16, mlp_width=4096, dropout=0.3, attention_bias=False
    ),
    "transformer-tiny": Seq2SeqConfig(**_TINY),
}
_PRE_NORM = {"transformer-pre-norm-tiny": Seq2SeqConfig(**_TINY, norm_order="pre")}
_OPUS_MT = Seq2SeqConfig(
    vocabulary_size=58101,
    activation="silu",
    positions="concatenated",
    logits_bias=True,
    pad_token=58100,
    start_token=58100,
    end_token=0,
)
_MARIAN = {"marian-opus-mt": _OPUS_MT, "marian-tiny": replace(_OPUS_MT, **_TINY, pad_token=30, start_token=30)}
_BART_BASE = Seq2SeqConfig(
    vocabulary_size=50265,
    width=768,
    heads=12,
    mlp_width=3072,
    max_source_length=1024,
    max_target_length=1024,
    activation="gelu",
    positions="learned",
    scaled_embedding=False,
    embedding_norm=True,
    logits_bias=True,
    pad_token=1,
    start_token=2,
    end_token=2,
)
_BART = {"bart-base": _BART_BASE, "bart-tiny": replace(_BART_BASE, **_TINY, decoder_layers=1)}
PRESETS = {
    name: Preset(family="seq2seq", config=config, compared_with=oracle)
    for oracle, configs in (
        ("transformers Marian, torch.nn", _PAPER),
        ("transformers mBART, torch.nn", _PRE_NORM),
        ("transformers Marian", _MARIAN),
        ("transformers BART", _BART),
    )
    for name, config in configs.items()
}
