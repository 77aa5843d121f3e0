"""Tiny captioners with a CNN and an RNN, of every kind."""

import dataclasses

import torch

from models.families.rnn_captioner import RecurrentCaptioner, RecurrentCaptionerConfig
from models.layers.conv_grid import ConvGridConfig
from tests.models.agreement import randomised

CONFIG = RecurrentCaptionerConfig(
    vocabulary_size=19,
    image_size=12,
    grid=ConvGridConfig(widths=(4, 5), depths=(1, 2)),
    alignment_width=4,
    embedding_width=7,
    hidden_width=6,
    max_target_length=14,
)
PLAIN = {"attention": "none", "alignment_width": None, "gated": False}
KINDS = {
    "Show, Attend and Tell": {},
    "GRU with attention, without a gate": {"cell": "gru", "gated": False, "alignment_layers": 1},
    "RNN with attention and a plain output": {"cell": "rnn", "deep_output": False, "alignment_layers": 3},
    "RNN": {**PLAIN, "cell": "rnn", "deep_output": False},
    "LSTM": {**PLAIN, "deep_output": False},
    "GRU": {**PLAIN, "cell": "gru", "deep_output": False},
    "LSTM and deep output": PLAIN,
}


def recurrent_captioner(dtype=torch.float64, **changes):
    """A model of the tiny configuration with random weights."""
    torch.manual_seed(0)
    return randomised(RecurrentCaptioner(dataclasses.replace(CONFIG, **changes)), dtype)
