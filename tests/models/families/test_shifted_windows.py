import dataclasses

import pytest
import torch
from torch import nn

from attendant.errors import ConfigError
from models.families.swin import Swin, SwinConfig
from models.families.swin_v2 import SwinV2, SwinV2Config
from models.layers.attend import Attend
from tests.models.agreement import (
    EXACT,
    agrees_in_both_precisions,
    difference,
    parameters_that_do_not_matter,
    randomised,
)
from tests.models.families.swin_weights import logits_of_timm, logits_of_transformers, transformers_from_ours
from tests.models.float64_oracles import oracle_precision

SIZES = {"classes": 5, "depths": (2, 2), "heads": (1, 2), "width": 8, "mlp_ratio": 2}
KINDS = {Swin: SwinConfig, SwinV2: SwinV2Config}
every_kind = pytest.mark.parametrize("kind", KINDS)
ORACLES = [logits_of_timm, logits_of_transformers]

# Images of 32 pixels have maps of 8 and 4 places, those of 48 have 12 and 6. The window of 8 shrinks on the map of 4,
# for which transformers' Swin, though not its SwinV2, makes a table of the wrong size.
WITHOUT_PADDING = [
    (kind, oracle, size, window)
    for kind in KINDS
    for oracle in ORACLES
    for size, window in [(32, 4), (48, 3), (32, 8)]
    if (kind, oracle, window) != (Swin, logits_of_transformers, 8)
]
# Maps of 10 and 5 places, 7 and 4, and 8 and 4 of a padded image. Where a map is padded and shifted, timm pads what
# it has shifted; transformers, torchvision and the authors' code for detection shift what they have padded.
WITH_PADDING = [(Swin, 40, 3), (Swin, 28, 3), (Swin, 30, 3), (SwinV2, 40, 3), (SwinV2, 30, 2), (SwinV2, 32, 3)]


def classifier(kind, dtype=torch.float64, **changes):
    torch.manual_seed(0)
    config = KINDS[kind](**{**SIZES, "image_size": 32, "window": 3, **changes})
    return randomised(kind(config), dtype)


def pixels_of(size=32, dtype=torch.float64, batch=2):
    return torch.randn(batch, 3, size, size, generator=torch.Generator().manual_seed(1)).to(dtype)


@agrees_in_both_precisions
@pytest.mark.parametrize(("kind", "oracle", "size", "window"), WITHOUT_PADDING)
def test_it_equals_both_strangers_with_the_same_weights(kind, oracle, size, window, dtype):
    model, pixels = classifier(kind, dtype, image_size=size, window=window), pixels_of(size, dtype)
    yield model(pixels), oracle(model, pixels)


@agrees_in_both_precisions
@pytest.mark.parametrize(("kind", "size", "window"), WITH_PADDING)
def test_it_equals_transformers_where_windows_do_not_divide_the_map(kind, size, window, dtype):
    model, pixels = classifier(kind, dtype, image_size=size, window=window), pixels_of(size, dtype)
    yield model(pixels), logits_of_transformers(model, pixels)


@pytest.mark.planted
@every_kind
@pytest.mark.parametrize("oracle", ORACLES)
def test_a_change_of_any_parameter_is_seen(kind, oracle):
    size = 32 if oracle is logits_of_transformers else 48
    model, pixels = classifier(kind, image_size=size), pixels_of(size)
    wanted = oracle(model, pixels)
    blind = parameters_that_do_not_matter(model, lambda: difference(model(pixels), wanted))
    # A bias of the keys adds the same to every score of a query, which the softmax takes away again.
    assert blind == {name for name, _ in model.named_parameters() if name.endswith("key.bias")}


@pytest.mark.planted
@every_kind
@pytest.mark.parametrize("changes", [{"norm_eps": 1e-6}, {"window": 4}, {"depths": (1, 3)}], ids=str)
def test_another_epsilon_window_or_depth_is_seen_by_the_comparison(kind, changes):
    model, pixels = classifier(kind, image_size=48), pixels_of(48)
    wanted = logits_of_timm(model, pixels)
    other = classifier(kind, image_size=48, **changes)
    other.load_state_dict({**other.state_dict(), **fitting(model, other)})
    assert difference(other(pixels), wanted) > 1e-7


def fitting(source, target):
    shapes = {name: tensor.shape for name, tensor in target.state_dict().items()}
    return {name: tensor for name, tensor in source.state_dict().items() if shapes.get(name) == tensor.shape}


@every_kind
def test_the_observed_weights_are_those_of_transformers(kind):
    model, pixels, seen = classifier(kind), pixels_of(), []
    for module in model.modules():
        if isinstance(module, Attend):
            module.observer = seen.append
    model(pixels)
    theirs = transformers_from_ours(model)
    theirs.set_attn_implementation("eager")
    with oracle_precision(torch.float64):
        last_of_stages = theirs(pixel_values=pixels, output_attentions=True).attentions
    for found, wanted in zip(seen[1::2], last_of_stages, strict=True):
        heads = wanted.shape[1]
        assert difference(found.unflatten(1, (-1, heads)).flatten(0, 1), wanted) <= EXACT


@every_kind
@pytest.mark.parametrize("row", range(3))
def test_another_image_of_the_batch_changes_no_logit_of_this_one(kind, row):
    model, pixels = classifier(kind), pixels_of(batch=3)
    together = model(pixels)
    assert difference(model(pixels[[row]]), together[[row]]) <= 1e-12
    others = [other for other in range(3) if other != row]
    pixels[row] = 1.0
    assert difference(model(pixels)[others], together[others]) <= 1e-12
    assert difference(model(pixels)[row], together[row]) > 1e-3


@every_kind
def test_two_blocks_carry_a_place_past_its_window_and_not_to_the_opposite_edge(kind):
    stage = classifier(kind, image_size=48).stages[0].blocks
    grid = torch.randn(1, 12, 12, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64).requires_grad_()
    (moved_by,) = torch.autograd.grad(stage(grid)[0, 0, 0].sum(), grid)
    found = moved_by[0].abs().amax(-1) > 0
    # The corner's shifted window is cut off from the opposite edges: one place, which saw a window of 3 × 3 before.
    assert found.nonzero().tolist() == [[row, column] for row in range(3) for column in range(3)]
    (moved_by,) = torch.autograd.grad(stage(grid)[0, 3, 3].sum(), grid)
    found = moved_by[0].abs().amax(-1) > 0
    assert found.nonzero().tolist() == [[row, column] for row in range(6) for column in range(6)]


@every_kind
def test_every_second_block_is_shifted_unless_one_window_covers_the_map(kind):
    model = classifier(kind, window=4, depths=(3, 2))
    shifts = [[block.attention.windows.shift for block in stage.blocks] for stage in model.stages]
    assert shifts == [[0, 2, 0], [0, 0]]


@every_kind
@pytest.mark.parametrize(("image_size", "sides"), [(32, (8, 4)), (30, (8, 4)), (28, (7, 4)), (36, (9, 5)), (3, (1, 1))])
def test_the_sides_of_the_maps_are_rounded_up(kind, image_size, sides):
    model, seen = classifier(kind, image_size=image_size), []
    for stage in model.stages:
        stage.blocks.register_forward_hook(lambda _, __, output: seen.append(tuple(output.shape[1:3])))
    assert model(pixels_of(image_size)).shape == (2, 5)
    assert seen == [(side, side) for side in sides]
    assert model.config.sides == sides


@every_kind
def test_dropout_acts_in_training_and_rests_in_evaluation(kind):
    model, pixels = classifier(kind, dropout=0.5), pixels_of()
    assert torch.equal(model(pixels), model(pixels))  # the same computation twice, in one process
    model.train()
    assert difference(model(pixels), model(pixels)) > 1e-3


@every_kind
def test_dropout_falls_on_the_tokens_behind_every_attention_and_twice_in_every_mlp(kind):
    model, pixels, dropped = classifier(kind, dropout=0.5).train(), pixels_of(), []
    for module in model.modules():
        if isinstance(module, nn.Dropout) and module.p:
            module.register_forward_hook(lambda _, __, output: dropped.append((output == 0).double().mean().item()))
    model(pixels)
    assert len(dropped) == 1 + 4 * (1 + 2)
    assert all(0.35 < share < 0.65 for share in dropped)


@every_kind
def test_every_parameter_is_trained(kind):
    torch.manual_seed(0)
    model = kind(KINDS[kind](**SIZES, image_size=32, window=3)).double()
    model(pixels_of()).square().sum().backward()
    assert [name for name, parameter in model.named_parameters() if parameter.grad is None] == []


@every_kind
@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"image_size": 0}, "image_size to be a positive integer; found 0"),
        ({"patch_size": -4}, "patch_size to be a positive integer; found -4"),
        ({"channels": 3.0}, "channels to be a positive integer; found 3.0"),
        ({"classes": False}, "classes to be a positive integer; found False"),
        ({"width": "8"}, "width to be a positive integer; found '8'"),
        ({"window": 0}, "window to be a positive integer; found 0"),
        ({"mlp_ratio": "2"}, "mlp_ratio to be a number that gives an inner width; found '2'"),
        ({"mlp_ratio": 0.1}, "mlp_ratio to be a number that gives an inner width; found 0.1"),
        ({"mlp_ratio": float("inf")}, "mlp_ratio to be a number that gives an inner width; found inf"),
        ({"depths": ()}, r"depths to be positive integers, one a stage; found \(\)"),
        ({"depths": (2, 0)}, r"depths to be positive integers, one a stage; found \(2, 0\)"),
        ({"depths": [2, 2]}, r"depths to be positive integers, one a stage; found \[2, 2\]"),
        ({"heads": 2}, "heads to be positive integers, one a stage; found 2"),
        ({"heads": (1, True)}, r"heads to be positive integers, one a stage; found \(1, True\)"),
        ({"heads": (1, 2, 4)}, r"heads of 2 stages, as of depths; found \(1, 2, 4\)"),
        ({"heads": (1, 3)}, "a stage's width 16 to be a multiple of its heads; found 3"),
        ({"dropout": 1.5}, r"dropout in \[0, 1\); found 1.5"),
        ({"norm_eps": float("inf")}, r"norm_eps in \[0, 1\); found inf"),
    ],
    ids=str,
)
def test_a_configuration_that_no_model_can_have_is_refused(kind, changes, expected):
    config = KINDS[kind](**SIZES)
    with pytest.raises(ConfigError, match=expected):
        dataclasses.replace(config, **changes)
