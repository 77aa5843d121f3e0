"""Named configurations: the published sizes, and a tiny one a family for tests."""

from __future__ import annotations

from models.presets import decoder, encoder, rnn_seq2seq, seq2seq, t5, vit
from models.presets.preset import Preset

PRESETS: dict[str, Preset] = {
    **seq2seq.PRESETS,
    **t5.PRESETS,
    **rnn_seq2seq.PRESETS,
    **decoder.PRESETS,
    **encoder.PRESETS,
    **vit.PRESETS,
}
