"""``digits-captioner``: two digits side by side to a sentence, by a Vision Transformer and a Transformer decoder.

Legend: B batch, T target positions, V vocabulary.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attendant.tensor_names import PIXELS
from attendant.tokenizer import TOKENIZER_NAME, Tokenizer
from models.checkpoints.store import Checkpoint
from models.families.vision_encoder import VisionEncoderConfig
from models.families.vision_seq2seq import VisionSeq2Seq, VisionSeq2SeqConfig
from models.generate import caption_greedily
from models.train.caption_data import (
    HELD_OUT_PAIRS,
    MAX_TARGET_LENGTH,
    SIDE,
    VOCABULARY_SIZE,
    Pairs,
    caption_of,
    caption_tokenizer,
    held_out_pairs,
    random_pairs,
    training_pixels,
)
from models.train.digit_data import DETAILS as DIGIT_DETAILS
from models.train.digit_task import DIGIT_DATA, DIGIT_LICENCE, DIGIT_SPLIT, JITTER
from models.train.loop import Report, Schedule, optimise, reproducible
from models.train.task import Card, Score, TrainingTask

CONFIG = VisionSeq2SeqConfig(
    encoder=VisionEncoderConfig(
        image_size=SIDE,
        patch_size=4,
        channels=1,
        layers=4,
        width=64,
        heads=4,
        mlp_width=128,
        position_deviation=0.5,
    ),
    vocabulary_size=VOCABULARY_SIZE,
    decoder_blocks=2,
    width=64,
    heads=4,
    mlp_width=128,
    max_target_length=MAX_TARGET_LENGTH,
    dropout=0.0,
)
SCHEDULE = Schedule(steps=1500, batch=128, peak_rate=2e-3)
DETAILS: dict[str, Any] = {"preprocessing": {**DIGIT_DETAILS["preprocessing"], "size": [SIDE, SIDE]}}


def train(seed: int, report: Report, schedule: Schedule = SCHEDULE) -> VisionSeq2Seq:
    """Train from random weights; the same seed gives the same weights on the same machine."""
    with reproducible(seed):
        model = VisionSeq2Seq(CONFIG)
        batches = random_pairs(schedule.batch, JITTER, torch.Generator().manual_seed(seed))
        optimise(model, lambda: _loss(model, *batches()), schedule, report)
    return model


def exact_match(model: nn.Module, pairs: Pairs | None = None) -> Score:
    """How many pairs get exactly their caption by greedy decoding; the held-out ones unless others are given."""
    assert isinstance(model, VisionSeq2Seq)
    pixels, captions = held_out_pairs() if pairs is None else pairs
    tokenizer = Tokenizer(caption_tokenizer())
    answers = caption_greedily(model, torch.from_numpy(pixels), MAX_TARGET_LENGTH - 1)
    return Score.of(map(tokenizer.decode, answers), captions)


def _loss(model: nn.Module, pixels: Tensor, target_BT: Tensor) -> Tensor:
    logits_BTV = model(pixels, target_BT[:, :-1])
    return F.cross_entropy(logits_BTV.flatten(0, 1), target_BT[:, 1:].flatten())


def _example(_trained: Checkpoint) -> dict[str, object]:
    pixels, captions = held_out_pairs()
    number = captions.index(caption_of(3, 8))
    return {"inputs": {PIXELS: np.round(pixels[number], 4).tolist()}, "answer": captions[number]}


def _write_tokenizer(folder: Path) -> None:
    caption_tokenizer().save(str(folder / TOKENIZER_NAME))


CARD = Card(
    title="Two digits to a sentence, a Vision Transformer with a Transformer decoder",
    purpose="A small captioner that a laptop trains in minutes: the demonstration of image captioning in this "
    "repository (`a three left of an eight`), whose cross-attention shows where it looks at each word. Not meant for "
    "anything else.",
    data=f"{DIGIT_DATA} Two digits stand side by side in the middle of 16×16 pixels.",
    licence=DIGIT_LICENCE,
    split=f"{DIGIT_SPLIT} The metric takes {HELD_OUT_PAIRS:,} random pairs of the held-out images.",
    recipe=f"AdamW, {SCHEDULE.steps:,} steps of {SCHEDULE.batch} random pairs of training images, peak rate "
    f"{SCHEDULE.peak_rate}, warm-up {SCHEDULE.warmup:.0%}, cosine to zero, weight decay {SCHEDULE.weight_decay}; each "
    f"digit turned by up to {JITTER.degrees}°, scaled by up to {JITTER.scale:.0%} and moved by up to {JITTER.pixels} "
    "pixels. Chosen among seven recipes on pairs of a fifth of the training images (95.90 % of 1,000); the held-out "
    "images chose nothing, neither recipe nor seed.",
    limits="Two upright digits like the data's, at these places; it has no sentence for anything else, and always "
    "says one.",
)
TASK = TrainingTask(
    name="digits-captioner",
    family="vision_seq2seq",
    steps=SCHEDULE.steps,
    metric=f"exact match, {HELD_OUT_PAIRS:,} pairs of held-out digits",
    packages=("torch", "scikit-learn", "tokenizers", "safetensors"),
    card=CARD,
    train=train,
    score=lambda trained: exact_match(trained.model),
    example=_example,
    trained_on=training_pixels,
    details=DETAILS,
    companions=_write_tokenizer,
)
