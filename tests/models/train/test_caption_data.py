import numpy as np
import torch

from attendant.tokenizer import Tokenizer
from models.train.caption_data import (
    HELD_OUT_PAIRS,
    MAX_TARGET_LENGTH,
    NAMES,
    caption_of,
    caption_tokenizer,
    held_out_pairs,
    random_pairs,
    side_by_side,
)
from models.train.digit_data import held_out, training_images
from models.train.jitter import Jitter

STILL = Jitter(degrees=0, scale=0, pixels=0)


def test_eight_alone_takes_an() -> None:
    assert caption_of(3, 8) == "a three left of an eight"
    assert caption_of(8, 1) == "an eight left of a one"
    assert sum("an " in caption_of(digit, digit) for digit in range(10)) == 1


def test_every_caption_survives_the_tokenizer_word_by_word() -> None:
    tokenizer = Tokenizer(caption_tokenizer())
    for left in range(10):
        for right in range(10):
            tokens = tokenizer.encode(caption_of(left, right), 99)
            assert len(tokens) == 6
            assert tokenizer.decode(tokens) == caption_of(left, right)


def test_the_digits_stand_beside_each_other_in_the_middle() -> None:
    left, right = np.full((1, 1, 8, 8), 0.25, np.float32), np.full((1, 1, 8, 8), 0.75, np.float32)
    canvas = side_by_side(left, right)
    assert canvas.shape == (1, 1, 16, 16)
    assert (canvas[0, 0, 4:12, :8] == 0.25).all() and (canvas[0, 0, 4:12, 8:] == 0.75).all()
    assert (canvas[0, 0, :4] == 0).all() and (canvas[0, 0, 12:] == 0).all()


def test_held_out_pairs_are_made_of_held_out_digits_and_say_which() -> None:
    pixels, captions = held_out_pairs()
    known = {image.tobytes(): label for image, label in zip(*held_out(), strict=True)}
    seen = {image.tobytes() for image in training_images()[0]}
    assert len(captions) == HELD_OUT_PAIRS
    for canvas, caption in zip(pixels, captions, strict=True):
        halves = [np.ascontiguousarray(canvas[:, 4:12, side : side + 8]).tobytes() for side in (0, 8)]
        assert caption == caption_of(*(int(known[half]) for half in halves))
        assert not seen & set(halves)
    assert len(set(captions)) > 90


def test_fewer_pairs_are_the_first_ones() -> None:
    pixels, captions = held_out_pairs(7)
    assert captions == held_out_pairs()[1][:7]
    assert np.array_equal(pixels, held_out_pairs()[0][:7])


def test_training_pairs_say_what_they_show() -> None:
    known = {image.tobytes(): label for image, label in zip(*training_images(), strict=True)}
    batch = random_pairs(16, STILL, torch.Generator().manual_seed(0))
    tokenizer = Tokenizer(caption_tokenizer())
    for _ in range(2):
        pixels, targets = batch()
        assert targets.shape == (16, MAX_TARGET_LENGTH)
        assert (targets[:, 0] == 1).all() and (targets[:, -1] == 2).all()
        for canvas, target in zip(pixels.numpy(), targets[:, 1:-1].tolist(), strict=True):
            words = tokenizer.decode(target).split()
            halves = [np.ascontiguousarray(canvas[:, 4:12, side : side + 8]) for side in (0, 8)]
            rounded = [nearest(half, known) for half in halves]
            assert [NAMES[digit] for digit in rounded] == [words[1], words[5]]


def nearest(image: np.ndarray, known: dict[bytes, int]) -> int:
    """The label of the training image that this one is, but for the rounding of an affine map that changes nothing."""
    exact = np.rint(image * 16).astype(np.float32) / 16
    return int(known[exact.tobytes()])
