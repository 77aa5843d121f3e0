import dataclasses

import pytest
import torch
from torch import nn

from attendant.errors import ConfigError
from models.families.tnt import TNT, TNTConfig
from tests.models.agreement import agrees_in_both_precisions, difference, parameters_that_do_not_matter, randomised
from tests.models.families.tnt_weights import stranger_from_ours

CONFIG = TNTConfig(
    image_size=24,
    patch_size=8,
    word_size=4,
    classes=5,
    layers=2,
    inner_width=8,
    inner_heads=2,
    inner_mlp_width=32,
    width=12,
    heads=3,
    mlp_width=18,
)


def classifier(dtype=torch.float64, **changes):
    torch.manual_seed(0)
    return randomised(TNT(dataclasses.replace(CONFIG, **changes)), dtype)


def pixels_of(dtype=torch.float64, batch=3):
    return torch.randn(batch, 3, 24, 24, generator=torch.Generator().manual_seed(1)).to(dtype)


@agrees_in_both_precisions
@pytest.mark.parametrize("word_size", [4, 2])
def test_it_equals_the_stranger_with_the_same_weights(word_size, dtype):
    model, pixels = classifier(dtype, word_size=word_size), pixels_of(dtype)
    yield model(pixels), stranger_from_ours(model)(pixels)


@pytest.mark.planted
def test_a_change_of_any_parameter_is_seen():
    model, pixels = classifier(), pixels_of()
    wanted = stranger_from_ours(model)(pixels)
    blind = parameters_that_do_not_matter(model, lambda: difference(model(pixels), wanted))
    assert blind == set()


@pytest.mark.planted
@pytest.mark.parametrize("block", range(CONFIG.layers))
def test_a_change_of_one_output_of_the_projection_is_seen(block):
    model, pixels = classifier(), pixels_of()
    wanted = stranger_from_ours(model)(pixels)
    model.blocks[block].projection.linear.weight[0] *= 1.1
    assert difference(model(pixels), wanted) > 1e-5


@pytest.mark.planted
def test_another_epsilon_is_seen():
    model, pixels = classifier(), pixels_of()
    wanted = stranger_from_ours(model)(pixels)
    other = TNT(dataclasses.replace(CONFIG, norm_eps=1e-6)).double().eval()
    other.load_state_dict(model.state_dict())
    assert difference(other(pixels), wanted) > 1e-8


@pytest.mark.parametrize("row", range(3))
def test_another_image_of_the_batch_changes_no_logit_of_this_one(row):
    model, pixels = classifier(), pixels_of()
    together = model(pixels)
    assert difference(model(pixels[[row]]), together[[row]]) <= 1e-12
    others = [other for other in range(3) if other != row]
    pixels[row] = 1.0
    assert difference(model(pixels)[others], together[others]) <= 1e-12
    assert difference(model(pixels)[row], together[row]) > 1e-3


@pytest.mark.parametrize("distance", [CONFIG.word_size, CONFIG.patch_size], ids=["word", "patch"])
def test_the_place_of_a_word_and_of_a_patch_matters(distance):
    model, images = classifier(), pixels_of()
    assert difference(model(images.roll(distance, dims=-1)), model(images)) > 1e-3


def test_words_meet_the_words_of_their_own_patch_alone():
    model, images = classifier(), pixels_of(batch=1)
    seen = []
    model.blocks[-1].inner.register_forward_hook(lambda _, __, words: seen.append(words))
    model(images)
    images[0, 0, 9, 2] += 1.0  # the second row of patches, the first column
    model(images)
    before, after = seen
    changed = (before != after).flatten(1).any(1)
    assert changed.tolist() == [patch == 3 for patch in range(9)]
    assert ((after - before)[3].abs().amax(-1) > 1e-3).all()


def test_nothing_is_added_to_the_class_token_in_front_of_the_outer_block():
    model, images = classifier(), pixels_of()
    outer = []
    block = model.blocks[0]
    block.register_forward_pre_hook(lambda _, inputs: outer.append(inputs[1]))
    block.outer.register_forward_pre_hook(lambda _, inputs: outer.append(inputs[0]))
    model(images)
    before, after = outer
    assert torch.equal(before[:, 0], after[:, 0])  # numbers are moved, and none is computed
    assert difference(before[:, 1:], after[:, 1:]) > 1e-3


def test_queries_keys_and_values_have_no_biases():
    biased = {name for name, _ in classifier().named_parameters() if "attention." in name and name.endswith("bias")}
    assert {name.rsplit(".", 2)[1] for name in biased} == {"output"}


def test_dropout_acts_in_training_and_rests_in_evaluation():
    model, pixels = classifier(dropout=0.5), pixels_of()
    assert torch.equal(model(pixels), model(pixels))  # the same computation twice, in one process
    model.train()
    assert difference(model(pixels), model(pixels)) > 1e-3


def test_dropout_falls_on_the_tokens_behind_every_attention_and_twice_in_every_mlp():
    model, pixels = classifier(dropout=0.5).train(), pixels_of()
    dropped = []
    for module in model.modules():
        if isinstance(module, nn.Dropout) and module.p:
            module.register_forward_hook(lambda _, __, output: dropped.append((output == 0).double().mean().item()))
    model(pixels)
    assert len(dropped) == 1 + CONFIG.layers * 2 * (1 + 2)
    assert all(0.35 < share < 0.65 for share in dropped)


def test_every_parameter_is_trained():
    model = TNT(CONFIG).double()
    model(pixels_of()).square().sum().backward()
    assert [name for name, parameter in model.named_parameters() if parameter.grad is None] == []


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"image_size": 0}, "image_size to be a positive integer; found 0"),
        ({"patch_size": -4}, "patch_size to be a positive integer; found -4"),
        ({"word_size": 0}, "word_size to be a positive integer; found 0"),
        ({"channels": 3.0}, "channels to be a positive integer; found 3.0"),
        ({"classes": False}, "classes to be a positive integer; found False"),
        ({"layers": None}, "layers to be a positive integer; found None"),
        ({"inner_width": "8"}, "inner_width to be a positive integer; found '8'"),
        ({"inner_heads": 0}, "inner_heads to be a positive integer; found 0"),
        ({"inner_mlp_width": 0}, "inner_mlp_width to be a positive integer; found 0"),
        ({"width": "16"}, "width to be a positive integer; found '16'"),
        ({"heads": 0}, "heads to be a positive integer; found 0"),
        ({"mlp_width": 0}, "mlp_width to be a positive integer; found 0"),
        ({"dropout": 1.5}, r"dropout in \[0, 1\); found 1.5"),
        ({"position_deviation": -0.5}, r"position_deviation in \[0, 1\); found -0.5"),
        ({"norm_eps": float("inf")}, r"norm_eps in \[0, 1\); found inf"),
        ({"patch_size": 5}, "image_size to be a multiple of patch_size 5; found 24"),
        ({"word_size": 3}, "patch_size to be a multiple of word_size 3; found 8"),
        ({"inner_heads": 3}, "inner_width to be a multiple of inner_heads 3; found 8"),
        ({"heads": 5}, "width to be a multiple of heads 5; found 12"),
    ],
    ids=str,
)
def test_a_configuration_that_no_model_can_have_is_refused(changes, expected):
    with pytest.raises(ConfigError, match=expected):
        dataclasses.replace(CONFIG, **changes)
