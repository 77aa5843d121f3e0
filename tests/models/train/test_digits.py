import dataclasses
from types import ModuleType

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from models.checkpoints.resolve import checkpoint_named
from models.train import digits, digits_swin
from models.train.digit_data import DETAILS, held_out, split_indices
from models.train.digit_task import accuracy
from models.train.loop import silent
from tests.models.train.losses import Losses

SHORT = dataclasses.replace(digits.SCHEDULE, steps=60)
VERY_SHORT = dataclasses.replace(digits.SCHEDULE, steps=3)
every_recipe = pytest.mark.parametrize("recipe", [digits, digits_swin], ids=["vit", "swin"])


@pytest.mark.parametrize(("name", "least"), [("digits-vit", 0.98), ("digits-swin", 0.97)])
def test_the_shipped_model_reads_nearly_all_of_the_held_out_images(name: str, least: float) -> None:
    assert accuracy(checkpoint_named(name).model).share >= least


def test_no_held_out_image_is_trained_on_and_none_is_lost() -> None:
    kept, held = split_indices()
    assert (len(kept), len(held)) == (1437, 360)
    assert sorted([*kept, *held]) == list(range(1797))


def test_each_digit_gives_a_fifth_of_its_images() -> None:
    held = np.bincount(held_out()[1])
    assert np.abs(held - np.bincount(load_digits().target) * 360 / 1797).max() <= 1


def test_the_split_is_the_one_that_the_shipped_model_was_measured_on() -> None:
    assert split_indices()[1][:10].tolist() == [0, 5, 6, 11, 12, 16, 17, 22, 23, 25]


def test_images_are_float32_from_0_to_1_with_one_channel() -> None:
    pixels, labels = held_out()
    assert (pixels.shape, pixels.dtype, labels.dtype) == ((360, 1, 8, 8), np.float32, np.int64)
    assert (pixels.min(), pixels.max()) == (0, 1)


def test_the_preprocessing_for_serving_gives_the_training_pixels_from_an_8_bit_image() -> None:
    pixels, _ = held_out()
    preprocessing = DETAILS["preprocessing"]
    grey = np.rint(pixels * 255)
    served = (grey * preprocessing["scale"] - preprocessing["mean"][0]) / preprocessing["deviation"][0]
    assert np.abs(served - pixels).max() <= 0.5 / 255 + 1e-6


@pytest.mark.parametrize("name", ["digits-vit", "digits-swin"])
def test_the_example_is_a_held_out_image_that_the_shipped_model_reads_right(name: str) -> None:
    checkpoint = checkpoint_named(name)
    pixels = torch.tensor(checkpoint.example["inputs"]["pixels"])
    held, labels = held_out()
    match = np.flatnonzero((held == pixels.numpy()).all(axis=(1, 2, 3)))
    answer = checkpoint.details["labels"][int(checkpoint.model(pixels[None]).argmax())]
    assert answer == checkpoint.example["answer"] == str(labels[match[0]]) == "3"


@pytest.mark.planted
@pytest.mark.parametrize("part", ["patches.projection.weight", "blocks.0.attention.value.weight", "head.weight"])
def test_a_zeroed_matrix_lowers_the_accuracy(part: str) -> None:
    model = checkpoint_named("digits-vit").model
    sound = accuracy(model)
    model.get_parameter(part).zero_()
    assert accuracy(model).share < sound.share - 0.02


@every_recipe
def test_a_few_steps_lower_the_loss(recipe: ModuleType) -> None:
    losses = Losses()
    recipe.train(0, losses, SHORT)
    assert losses.last(5) < 0.85 * losses.first(5)


@every_recipe
def test_one_seed_gives_one_model_and_another_seed_another(recipe: ModuleType) -> None:
    first, again, other = (recipe.train(seed, silent, VERY_SHORT).state_dict() for seed in (3, 3, 4))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["head.weight"], other["head.weight"])
