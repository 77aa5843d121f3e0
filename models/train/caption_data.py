"""Two digits side by side, and the sentence that says so: ``a three left of an eight``.

The digits are those of :mod:`models.train.digit_data`; captions of the held-out ones are never trained on.

Legend: N pairs.
"""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer, pre_tokenizers
from tokenizers.models import WordLevel
from torch import Tensor

from attendant.tokenizer import UNKNOWN_TOKEN
from models.train.digit_data import Images, held_out, training_images
from models.train.jitter import Jitter

Pairs = tuple[NDArray[np.float32], list[str]]

SIDE, DIGIT = 16, 8
HELD_OUT_PAIRS = 1000
NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
SPECIALS = ("<pad>", "<s>", "</s>", UNKNOWN_TOKEN)
WORDS = ("a", "an", "left", "of", *NAMES)
VOCABULARY_SIZE = len(SPECIALS) + len(WORDS)
MAX_TARGET_LENGTH = 8  # the start token, six words, and the place of the end token
_HELD_OUT_SEED = 0


def caption_tokenizer() -> Tokenizer:
    """A tokenizer of one token a word, the ids 0 to 3 for :data:`SPECIALS`; words are joined by spaces."""
    vocabulary = {token: number for number, token in enumerate([*SPECIALS, *WORDS])}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token=UNKNOWN_TOKEN))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.add_special_tokens(list(SPECIALS))
    return tokenizer


def caption_of(left: int, right: int) -> str:
    return f"{_with_article(left)} left of {_with_article(right)}"


def side_by_side(left: NDArray[np.float32], right: NDArray[np.float32]) -> NDArray[np.float32]:
    """Images ``[N, 1, 8, 8]`` beside each other in the middle of ``[N, 1, 16, 16]``."""
    canvas = np.zeros((len(left), 1, SIDE, SIDE), dtype=np.float32)
    top = (SIDE - DIGIT) // 2
    canvas[:, :, top : top + DIGIT, :DIGIT] = left
    canvas[:, :, top : top + DIGIT, DIGIT:] = right
    return canvas


def held_out_pairs(count: int = HELD_OUT_PAIRS) -> Pairs:
    """Random pairs of held-out digits, float32 ``[N, 1, 16, 16]`` from 0 to 1, with their captions."""
    generator = np.random.default_rng(_HELD_OUT_SEED)
    pixels, labels = held_out()
    left, right = generator.integers(len(labels), size=(2, HELD_OUT_PAIRS))[:, :count]
    captions = [caption_of(one, other) for one, other in zip(labels[left], labels[right], strict=True)]
    return side_by_side(pixels[left], pixels[right]), captions


def training_pixels(count: int) -> NDArray[np.float32]:
    """Random pairs of training digits, float32 ``[count, 1, 16, 16]`` from 0 to 1; the same ones on each call."""
    pixels, labels = training_images()
    left, right = np.random.default_rng(0).integers(len(labels), size=(2, count))
    return side_by_side(pixels[left], pixels[right])


def random_pairs(
    size: int, jitter: Jitter, generator: torch.Generator, images: Images | None = None
) -> Callable[[], tuple[Tensor, Tensor]]:
    """Batches of pairs of training digits without end, each digit changed a little.

    Args:
        size: pairs in a batch.
        jitter: of every digit.
        generator: of every choice.
        images: the digits; those to train on if not given.

    Returns:
        A function that makes pixels ``[size, 1, 16, 16]`` and targets int64 ``[size, 8]``, start and end included.
    """
    pixels, labels = (torch.from_numpy(array) for array in images or training_images())
    targets_LR8 = torch.tensor([[_target(left, right) for right in range(10)] for left in range(10)])

    def batch() -> tuple[Tensor, Tensor]:
        left, right = torch.randint(len(labels), (2, size), generator=generator)
        changed = [jitter.apply(pixels[chosen], generator).numpy() for chosen in (left, right)]
        return torch.from_numpy(side_by_side(*changed)), targets_LR8[labels[left], labels[right]]

    return batch


def _with_article(digit: int) -> str:
    return f"{'an' if NAMES[digit] == 'eight' else 'a'} {NAMES[digit]}"


def _target(left: int, right: int) -> list[int]:
    words = [len(SPECIALS) + WORDS.index(word) for word in caption_of(left, right).split()]
    return [SPECIALS.index("<s>"), *words, SPECIALS.index("</s>")]
