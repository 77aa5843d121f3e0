"""What the shipped checkpoints never saw, as questions with known answers: checkpoint → how to make them.

The data is that of :mod:`models.train`, and so is the split: digits, pairs of digits, dates, docstrings.

Legend: N questions, T target positions.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from attendant.config import config_from_json
from attendant.signature import GraphSignature
from attendant.tensor_names import PIXELS
from attendant.tokenization import load_tokenizer
from attendant.tokenizer import TextTokenizer
from export.quality.questions import EvaluationSet
from models.checkpoints.file_names import CONFIG_NAME
from models.checkpoints.place import PRETRAINED
from models.checkpoints.store import Checkpoint
from models.generate import pad_sources
from models.tasks.from_bytes import takes_bytes
from models.train import digit_data
from models.train.bits_per_byte import windows
from models.train.caption_data import held_out_pairs
from models.train.date_data import MAX_SOURCE_LENGTH
from models.train.date_data import held_out as held_out_dates
from models.train.docstrings import standard_library
from models.train.streams import token_streams
from serving.runtime.base import Array

WINDOWS = 64
"""How many docstrings are asked where not all are wanted; of images and dates, all are: that takes seconds."""
SAMPLE, SAMPLE_OF_WINDOWS = 64, 16


def has_held_out(checkpoint: Checkpoint) -> bool:
    """Whether it is a shipped checkpoint, or one trained again: the same name, architecture and sizes."""
    if checkpoint.name not in HELD_OUT or checkpoint.folder is None:
        return False
    shipped = json.loads((PRETRAINED / checkpoint.name / CONFIG_NAME).read_text(encoding="utf-8"))
    family = checkpoint.family
    config = config_from_json(family.config, shipped["config"])
    return bool(shipped["family"] == family.name and config == checkpoint.config)


def held_out_questions(checkpoint: Checkpoint, first: GraphSignature, full: bool) -> EvaluationSet:
    """The held-out examples of a shipped checkpoint.

    Args:
        checkpoint: one that :func:`has_held_out` knows.
        first: of the artefact's graphs.
        full: whether all are wanted, where that takes longer than seconds.
    """
    questions = HELD_OUT[checkpoint.name](checkpoint, full)
    if not takes_bytes(first):
        return questions
    preprocessing = checkpoint.details["preprocessing"]
    mean, deviation = (np.array(preprocessing[name])[:, None, None] for name in ("mean", "deviation"))
    values = (questions.feeds[PIXELS] * deviation + mean) / preprocessing["scale"]
    pixels: Array = values.round().clip(0, 255).astype(np.uint8).transpose(0, 2, 3, 1)
    return replace(questions, feeds={PIXELS: pixels})


def _digits(_checkpoint: Checkpoint, _full: bool) -> EvaluationSet:
    pixels, labels = digit_data.held_out()
    return EvaluationSet(
        name="held-out images",
        real=True,
        count=len(labels),
        sample=len(labels),
        feeds={PIXELS: pixels},
        truth=labels,
        metric="images with their digit",
    )


def _pairs(checkpoint: Checkpoint, _full: bool) -> EvaluationSet:
    pixels, captions = held_out_pairs()
    return EvaluationSet(
        name="held-out pairs",
        real=True,
        count=len(captions),
        sample=SAMPLE,
        feeds={PIXELS: pixels},
        truth=_targets(checkpoint, captions),
        metric="exact captions",
    )


def _dates(checkpoint: Checkpoint, _full: bool) -> EvaluationSet:
    texts, dates = zip(*held_out_dates(), strict=True)
    tokenizer = _tokenizer(checkpoint)
    sources = [tokenizer.encode(text, MAX_SOURCE_LENGTH) for text in texts]
    ids, mask = pad_sources(sources, checkpoint.config.pad_token)
    return EvaluationSet(
        name="held-out dates",
        real=True,
        count=len(texts),
        sample=SAMPLE,
        feeds={"source_ids": ids.numpy(), "source_mask": mask.numpy()},
        truth=_targets(checkpoint, list(dates)),
        metric="exact dates",
    )


def _docstrings(checkpoint: Checkpoint, full: bool) -> EvaluationSet:
    length = checkpoint.config.max_length
    streams = token_streams(standard_library()[1], _tokenizer(checkpoint))
    texts = np.array(
        [
            stream[begin : end + 1]
            for stream in streams
            for begin, end, _ in windows(len(stream) - 1, length)
            if end - begin == length
        ]
    )
    every = EvaluationSet(
        name="held-out docstrings",
        real=True,
        count=len(texts),
        sample=SAMPLE_OF_WINDOWS,
        truth=np.random.default_rng(0).permutation(texts),
        prompt=length // 2,
        metric="next tokens",
    )
    return every if full else every.first(WINDOWS)


HELD_OUT: Mapping[str, Callable[[Checkpoint, bool], EvaluationSet]] = {
    "digits-vit": _digits,
    "digits-swin": _digits,
    "digits-captioner": _pairs,
    "dates-transformer": _dates,
    "dates-gru": _dates,
    "stdlib-lm": _docstrings,
}


def _tokenizer(checkpoint: Checkpoint) -> TextTokenizer:
    assert checkpoint.folder
    return load_tokenizer(checkpoint.folder)


def _targets(checkpoint: Checkpoint, texts: list[str]) -> Array:
    config, tokenizer = checkpoint.config, _tokenizer(checkpoint)
    encoded = [tokenizer.encode(text, config.max_target_length) for text in texts]
    return np.array([[config.start_token, *tokens, config.end_token] for tokens in encoded])
