"""``stdlib-lm``: a small Llama that writes like the documentation strings of Python's standard library.

The texts of a module follow one another in one stream, the end-of-text token between them: names that a module has
introduced come again in its next texts.

Legend: B batch, S positions, N tokens of the stream, V vocabulary.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import tokenizers
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.checkpoints.store import Checkpoint
from models.families.decoder import Decoder, DecoderConfig
from models.layers.rope import RopeConfig
from models.tokenization import TOKENIZER_NAME, TextTokenizer, Tokenizer, load_tokenizer
from models.train.bits_per_byte import BitsPerByte, decoder_bits
from models.train.docstring_tokenizer import END_TOKEN, train_tokenizer
from models.train.docstrings import Corpus, size, standard_library
from models.train.loop import Report, Schedule, optimise, reproducible
from models.train.ngram import KneserNey
from models.train.task import Card, TrainingTask
