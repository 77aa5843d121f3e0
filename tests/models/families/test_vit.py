import dataclasses

import pytest
import torch
from torch import nn

from attendant.errors import ConfigError
from models.families.vit import ViT, ViTConfig
from models.layers.positional import resized_positions
from tests.models.agreement import agrees_in_both_precisions, difference, parameters_that_do_not_matter, randomised
from tests.models.families.timm_vit_weights import timm_from_ours
from tests.models.families.vit_weights import stranger_from_ours

CONFIG = ViTConfig(image_size=12, patch_size=4, channels=3, classes=5, layers=2, width=16, heads=2, mlp_width=24)
HEAD_WIDTH = 8
HEADS = {"linear head": None, "MLP head": HEAD_WIDTH}
every_head = pytest.mark.parametrize("head_width", HEADS.values(), ids=HEADS)


def classifier(dtype=torch.float64, **changes):
    torch.manual_seed(0)
    return randomised(ViT(dataclasses.replace(CONFIG, **changes)), dtype)


def pixels_of(dtype=torch.float64, batch=3):
    return torch.randn(batch, 3, 12, 12, generator=torch.Generator().manual_seed(1)).to(dtype)


def logits_by_stranger(model, pixels, **options):
    theirs = stranger_from_ours(model, **options)
    if isinstance(model.head, nn.Linear):
        return theirs(pixel_values=pixels).logits
    hidden, out = model.head[0], model.head[2]
    features = theirs.vit(pixel_values=pixels).last_hidden_state[:, 0]
    return torch.tanh(features @ hidden.weight.T + hidden.bias) @ out.weight.T + out.bias


@agrees_in_both_precisions
@every_head
def test_it_equals_the_stranger_with_the_same_weights(head_width, dtype):
    model, pixels = classifier(dtype, head_width=head_width), pixels_of(dtype)
    yield model(pixels), logits_by_stranger(model, pixels)


@agrees_in_both_precisions
def test_with_a_linear_head_it_equals_timms_too(dtype):
    model, pixels = classifier(dtype), pixels_of(dtype)
    yield model(pixels), timm_from_ours(model)(pixels)


@pytest.mark.planted
def test_a_change_of_any_parameter_but_the_biases_of_keys_is_seen_by_the_comparison_with_timm():
    model, pixels = classifier(), pixels_of()
    wanted = timm_from_ours(model)(pixels)
    blind = parameters_that_do_not_matter(model, lambda: difference(model(pixels), wanted))
    assert blind == {name for name, _ in model.named_parameters() if name.endswith("key.bias")}


@pytest.mark.planted
@every_head
def test_a_change_of_any_parameter_but_the_biases_of_keys_is_seen(head_width):
    model, pixels = classifier(head_width=head_width), pixels_of()
    wanted = logits_by_stranger(model, pixels)
    blind = parameters_that_do_not_matter(model, lambda: difference(model(pixels), wanted))
    # A bias of the keys adds the same to every score of a query, which the softmax takes away again.
    assert blind == {name for name, _ in model.named_parameters() if name.endswith("key.bias")}


@pytest.mark.planted
def test_another_epsilon_is_seen():
    model, pixels = classifier(), pixels_of()
    assert difference(model(pixels), logits_by_stranger(model, pixels, norm_eps=1e-12)) > 1e-8


@pytest.mark.parametrize("row", range(3))
def test_another_image_of_the_batch_changes_no_logit_of_this_one(row):
    model, pixels = classifier(), pixels_of()
    together = model(pixels)
    assert difference(model(pixels[[row]]), together[[row]]) <= 1e-12
    others = [other for other in range(3) if other != row]
    pixels[row] = 1.0
    assert difference(model(pixels)[others], together[others]) <= 1e-12
    assert difference(model(pixels)[row], together[row]) > 1e-3


@pytest.mark.parametrize("side", [8, 16, 28])
def test_with_resized_positions_it_reads_images_of_another_size_as_transformers_does(side):
    model = classifier()
    pixels = torch.randn(2, 3, side, side, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    wanted = stranger_from_ours(model)(pixel_values=pixels, interpolate_pos_encoding=True).logits
    larger = classifier(image_size=side)
    table = resized_positions(model.positions.table, 1, (side // 4, side // 4))
    larger.load_state_dict(model.state_dict() | {"positions.table": table})
    assert difference(larger(pixels), wanted) <= 1e-12


def test_the_place_of_a_patch_matters():
    model, pixels = classifier(), pixels_of()
    assert difference(model(pixels.roll(4, dims=-1)), model(pixels)) > 1e-3


def test_the_class_token_stands_in_front_and_is_what_the_head_reads():
    model, pixels = classifier(), pixels_of()
    seen = []
    model.head.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    model.norm.register_forward_hook(lambda _, __, output: seen.append(output))
    model(pixels)
    normed, read = seen
    assert normed.shape == (3, 1 + 9, CONFIG.width)
    assert torch.equal(read, normed[:, 0])  # numbers are moved, and none is computed


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
    assert len(dropped) == 1 + CONFIG.layers * (1 + 2)
    assert all(0.35 < share < 0.65 for share in dropped)


@every_head
def test_every_parameter_is_trained(head_width):
    model = ViT(dataclasses.replace(CONFIG, head_width=head_width)).double()
    model(pixels_of()).square().sum().backward()
    assert [name for name, parameter in model.named_parameters() if parameter.grad is None] == []


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"image_size": 0}, "image_size to be a positive integer; found 0"),
        ({"patch_size": -4}, "patch_size to be a positive integer; found -4"),
        ({"channels": 3.0}, "channels to be a positive integer; found 3.0"),
        ({"classes": False}, "classes to be a positive integer; found False"),
        ({"layers": None}, "layers to be a positive integer; found None"),
        ({"width": "16"}, "width to be a positive integer; found '16'"),
        ({"heads": 0}, "heads to be a positive integer; found 0"),
        ({"mlp_width": 0}, "mlp_width to be a positive integer; found 0"),
        ({"head_width": 0}, "head_width to be a positive integer; found 0"),
        ({"dropout": 1.5}, r"dropout in \[0, 1\); found 1.5"),
        ({"position_deviation": -0.5}, r"position_deviation in \[0, 1\); found -0.5"),
        ({"norm_eps": float("inf")}, r"norm_eps in \[0, 1\); found inf"),
        ({"heads": 3}, "width to be a multiple of 3 heads; found 16"),
        ({"patch_size": 5}, "image_size to be a multiple of patch_size 5; found 12"),
    ],
    ids=str,
)
def test_a_configuration_that_no_model_can_have_is_refused(changes, expected):
    with pytest.raises(ConfigError, match=expected):
        dataclasses.replace(CONFIG, **changes)
