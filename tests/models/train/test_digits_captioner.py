import dataclasses

import numpy as np
import pytest
import torch

from attendant.tokenizer import Tokenizer
from models.checkpoints.resolve import checkpoint_named
from models.explain.observe import observe
from models.generate import caption_greedily
from models.train import digits_captioner
from models.train.caption_data import caption_tokenizer, held_out_pairs
from models.train.digits_captioner import exact_match
from models.train.loop import silent
from tests.models.train.losses import Losses

SHORT = dataclasses.replace(digits_captioner.SCHEDULE, steps=30)
VERY_SHORT = dataclasses.replace(digits_captioner.SCHEDULE, steps=2)


def test_the_shipped_model_describes_nearly_all_pairs_that_it_never_saw() -> None:
    assert exact_match(checkpoint_named("digits-captioner").model).share >= 0.94


def test_the_example_is_a_held_out_pair_that_the_shipped_model_describes_rightly() -> None:
    checkpoint = checkpoint_named("digits-captioner")
    pixels = np.asarray(checkpoint.example["inputs"]["pixels"], dtype=np.float32)
    held, captions = held_out_pairs()
    match = int(np.flatnonzero((np.abs(held - pixels) < 1e-4).all(axis=(1, 2, 3)))[0])
    (tokens,) = caption_greedily(checkpoint.model, torch.from_numpy(pixels)[None], 7)
    answer = Tokenizer(caption_tokenizer()).decode(tokens)
    assert answer == checkpoint.example["answer"] == captions[match] == "a three left of an eight"


@pytest.mark.planted
@pytest.mark.parametrize("part", ["encoder.patches.projection.weight", "decoder.1.cross_attention.value.weight"])
def test_a_zeroed_matrix_lowers_the_exact_match(part: str) -> None:
    model = checkpoint_named("digits-captioner").model
    pairs = held_out_pairs(200)
    sound = exact_match(model, pairs)
    model.get_parameter(part).zero_()
    assert exact_match(model, pairs).share < sound.share - 0.1


@torch.no_grad()
def test_the_names_of_the_digits_are_read_on_their_own_sides() -> None:
    model, (pixels, captions) = checkpoint_named("digits-captioner").model, held_out_pairs(100)
    tokenizer = Tokenizer(caption_tokenizer())
    targets = torch.tensor([[1, *tokenizer.encode(caption, 9)] for caption in captions])
    with observe(model, inside="cross_attention") as maps:
        model(torch.from_numpy(pixels), targets)
    weights = torch.stack([one[0] for one in maps.values()]).mean(
        (0, 2)
    )  # pairs, target positions, tokens of the image
    side = int((weights.shape[-1] - 1) ** 0.5)
    columns = weights[..., 1:].unflatten(2, (side, side)).sum(2)
    left, right = columns[..., : side // 2].sum(-1), columns[..., side // 2 :].sum(-1)
    first_name, second_name = 1, 5  # the positions that choose them: behind the first and the second article
    assert (left > right)[:, first_name].double().mean() > 0.9
    assert (right > left)[:, second_name].double().mean() > 0.9


def test_a_few_steps_lower_the_loss() -> None:
    losses = Losses()
    digits_captioner.train(0, losses, SHORT)
    assert losses.last(5) < 0.7 * losses.first(5)


def test_one_seed_gives_one_model_and_another_seed_another() -> None:
    first, again, other = (digits_captioner.train(seed, silent, VERY_SHORT).state_dict() for seed in (3, 3, 4))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["embedding.weight"], other["embedding.weight"])
