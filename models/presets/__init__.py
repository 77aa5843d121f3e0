"""Named configurations: the published sizes, and a tiny one a family for tests."""

from __future__ import annotations

from models.presets import (
    decoder,
    encoder,
    hybrid_vit,
    rnn_captioner,
    rnn_seq2seq,
    seq2seq,
    swin,
    swin_v2,
    t5,
    timesformer,
    tnt,
    vision_seq2seq,
    vit,
)
from models.presets.preset import Preset

PRESETS: dict[str, Preset] = {
    **seq2seq.PRESETS,
    **t5.PRESETS,
    **rnn_seq2seq.PRESETS,
    **decoder.PRESETS,
    **encoder.PRESETS,
    **vision_seq2seq.PRESETS,
    **rnn_captioner.PRESETS,
    **vit.PRESETS,
    **swin.PRESETS,
    **swin_v2.PRESETS,
    **hybrid_vit.PRESETS,
    **tnt.PRESETS,
    **timesformer.PRESETS,
}
