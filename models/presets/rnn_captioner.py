"""Presets of the captioners with a CNN and an RNN: Show, Attend and Tell of Xu et al. 2015, soft attention, for COCO.

Its sizes are the defaults of the authors' code (arctic-captions, ``evaluate_coco.py``) behind VGG-19.
"""

from dataclasses import replace

from models.families.rnn_captioner import RecurrentCaptionerConfig
from models.layers.conv_grid import ConvGridConfig
from models.presets.preset import Preset

_SHOW_ATTEND_TELL = RecurrentCaptionerConfig(vocabulary_size=10_000)
_TINY = replace(
    _SHOW_ATTEND_TELL,
    vocabulary_size=31,
    image_size=12,
    grid=ConvGridConfig(widths=(6, 10), depths=(1, 2)),
    alignment_width=10,
    embedding_width=8,
    hidden_width=12,
    max_target_length=8,
)
_PLAIN = replace(_TINY, attention="none", alignment_width=None, gated=False, deep_output=False)
_CONFIGS = {
    "show-attend-tell": _SHOW_ATTEND_TELL,
    "show-attend-tell-tiny": _TINY,
    "cnn-rnn-captioner-tiny": replace(_PLAIN, cell="rnn"),
    "cnn-lstm-captioner-tiny": _PLAIN,
    "cnn-gru-captioner-tiny": replace(_PLAIN, cell="gru"),
}
PRESETS = {
    name: Preset(family="rnn_captioner", config=config, compared_with="a loop in NumPy, ONNX Runtime")
    for name, config in _CONFIGS.items()
}
