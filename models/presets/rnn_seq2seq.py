"""Presets of the recurrent encoder-decoder: RNNsearch-50 of Bahdanau, Cho and Bengio 2015, appendices A.2.3 and B.1."""

import dataclasses

from models.families.rnn_seq2seq import RecurrentSeq2SeqConfig
from models.presets.preset import Preset

_TINY = RecurrentSeq2SeqConfig(
    source_vocabulary_size=31,
    target_vocabulary_size=29,
    cell="gru",
    embedding_width=8,
    hidden_width=12,
    alignment_width=10,
    maxout_width=6,
    max_source_length=12,
    max_target_length=8,
)
_CONFIGS = {
    "rnnsearch-50": RecurrentSeq2SeqConfig(
        source_vocabulary_size=30_000, target_vocabulary_size=30_000, maxout_width=500
    ),
    "rnn-seq2seq-tiny": dataclasses.replace(
        _TINY, cell="rnn", bidirectional=False, attention="none", alignment_width=None, maxout_width=None
    ),
    "lstm-seq2seq-tiny": dataclasses.replace(_TINY, cell="lstm", maxout_width=None),
    "gru-seq2seq-tiny": _TINY,
}
PRESETS = {
    name: Preset(family="rnn_seq2seq", config=config, compared_with="a loop in NumPy, torch.nn, ONNX Runtime")
    for name, config in _CONFIGS.items()
}
