import dataclasses

import pytest
import torch
from torch import nn

from attendant.errors import ConfigError
from models.families.timesformer import TimeSformer, TimeSformerConfig
from tests.models.agreement import agrees_in_both_precisions, difference, parameters_that_do_not_matter, randomised
from tests.models.families.timesformer_weights import logits_by_stranger, stranger_from_ours

CONFIG = TimeSformerConfig(frames=4, image_size=12, patch_size=4, classes=5, layers=2, width=16, heads=2, mlp_width=24)
FORMS = ("divided", "joint", "space")
ORDER = [2, 0, 3, 1]
every_form = pytest.mark.parametrize("attention", FORMS)


def classifier(attention="divided", dtype=torch.float64, **changes):
    torch.manual_seed(0)
    return randomised(TimeSformer(dataclasses.replace(CONFIG, attention=attention, **changes)), dtype)


def videos_of(dtype=torch.float64, batch=3):
    return torch.randn(batch, 4, 3, 12, 12, generator=torch.Generator().manual_seed(1)).to(dtype)


@agrees_in_both_precisions
@every_form
def test_it_equals_the_stranger_with_the_same_weights(attention, dtype):
    model, videos = classifier(attention, dtype), videos_of(dtype)
    wanted = logits_by_stranger(stranger_from_ours(model), videos)
    assert wanted.shape == (3, CONFIG.classes)
    yield model(videos), wanted


@pytest.mark.planted
@every_form
def test_a_change_of_any_parameter_but_the_biases_of_keys_is_seen(attention):
    model, videos = classifier(attention), videos_of()
    wanted = logits_by_stranger(stranger_from_ours(model), videos)
    blind = parameters_that_do_not_matter(model, lambda: difference(model(videos), wanted))
    # A bias of the keys adds the same to every score of a query, which the softmax takes away again.
    assert blind == {name for name, _ in model.named_parameters() if name.endswith("key.bias")}


@pytest.mark.planted
def test_another_epsilon_is_seen():
    model, videos = classifier(), videos_of()
    assert difference(model(videos), logits_by_stranger(stranger_from_ours(model, norm_eps=1e-12), videos)) > 1e-8


@every_form
@pytest.mark.parametrize("row", range(3))
def test_another_video_of_the_batch_changes_no_logit_of_this_one(attention, row):
    model, videos = classifier(attention), videos_of()
    together = model(videos)
    assert difference(model(videos[[row]]), together[[row]]) <= 1e-12
    others = [other for other in range(3) if other != row]
    videos[row] = 1.0
    assert difference(model(videos)[others], together[others]) <= 1e-12
    assert difference(model(videos)[row], together[row]) > 1e-3


def test_without_time_the_order_of_frames_does_not_matter():
    model, videos = classifier("space"), videos_of()
    assert difference(model(videos[:, ORDER]), model(videos)) <= 1e-12


@pytest.mark.parametrize("attention", ["divided", "joint"])
def test_with_time_the_order_of_frames_matters_by_the_table_of_times_alone(attention):
    model, videos = classifier(attention), videos_of()
    in_order = model(videos)
    assert difference(model(videos[:, ORDER]), in_order) > 1e-3
    model.times.table.copy_(model.times.table[:, ORDER])
    assert difference(model(videos[:, ORDER]), in_order) <= 1e-12


@every_form
def test_the_place_of_a_patch_matters(attention):
    model, videos = classifier(attention), videos_of()
    assert difference(model(videos.roll(4, dims=-1)), model(videos)) > 1e-3


@every_form
def test_every_frame_matters(attention):
    model, videos = classifier(attention), videos_of()
    before = model(videos)
    for frame in range(CONFIG.frames):
        changed = videos.clone()
        changed[:, frame] += 1.0
        assert difference(model(changed), before) > 1e-3


def test_a_token_attends_to_its_place_and_then_its_frame_or_to_all_frames_or_to_its_frame_alone():
    shapes = {}
    for attention in FORMS:
        model = classifier(attention)
        seen = shapes[attention] = []
        for name, module in model.blocks[0].named_modules():
            if name.endswith("attend"):
                module.observer = lambda weights, name=name, seen=seen: seen.append((name, tuple(weights.shape)))
        model(videos_of())
    assert shapes == {
        "divided": [("time_attention.attend", (27, 2, 4, 4)), ("space_attention.attend", (12, 2, 10, 10))],
        "joint": [("attention.attend", (3, 2, 37, 37))],
        "space": [("attention.attend", (12, 2, 10, 10))],
    }


def test_dropout_acts_in_training_and_rests_in_evaluation():
    model, videos = classifier(dropout=0.5), videos_of()
    assert torch.equal(model(videos), model(videos))  # the same computation twice, in one process
    model.train()
    assert difference(model(videos), model(videos)) > 1e-3


@pytest.mark.parametrize(("attention", "places"), [("divided", 2 + 2 * 4), ("joint", 2 + 2 * 3), ("space", 1 + 2 * 3)])
def test_dropout_falls_on_both_positions_behind_every_attention_and_twice_in_every_mlp(attention, places):
    model, videos = classifier(attention, dropout=0.5).train(), videos_of()
    dropped = []
    for module in model.modules():
        if isinstance(module, nn.Dropout) and module.p:
            module.register_forward_hook(lambda _, __, output: dropped.append((output == 0).double().mean().item()))
    model(videos)
    assert len(dropped) == places
    # Three quarters where it falls on tokens that have been through it before.
    assert all(0.35 < share < 0.85 for share in dropped)


@every_form
def test_every_parameter_is_trained(attention):
    model = TimeSformer(dataclasses.replace(CONFIG, attention=attention)).double()
    model(videos_of()).square().sum().backward()
    assert [name for name, parameter in model.named_parameters() if parameter.grad is None] == []


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"frames": 0}, "frames to be a positive integer; found 0"),
        ({"image_size": 0}, "image_size to be a positive integer; found 0"),
        ({"patch_size": -4}, "patch_size to be a positive integer; found -4"),
        ({"channels": 3.0}, "channels to be a positive integer; found 3.0"),
        ({"classes": False}, "classes to be a positive integer; found False"),
        ({"attention": "divided_space_time"}, "attention, one of .*; found 'divided_space_time'"),
        ({"layers": None}, "layers to be a positive integer; found None"),
        ({"width": "16"}, "width to be a positive integer; found '16'"),
        ({"heads": 0}, "heads to be a positive integer; found 0"),
        ({"mlp_width": 0}, "mlp_width to be a positive integer; found 0"),
        ({"dropout": 1.5}, r"dropout in \[0, 1\); found 1.5"),
        ({"position_deviation": -0.5}, r"position_deviation in \[0, 1\); found -0.5"),
        ({"norm_eps": float("inf")}, r"norm_eps in \[0, 1\); found inf"),
        ({"patch_size": 5}, "image_size to be a multiple of patch_size 5; found 12"),
        ({"heads": 3}, "width to be a multiple of heads 3; found 16"),
    ],
    ids=str,
)
def test_a_configuration_that_no_model_can_have_is_refused(changes, expected):
    with pytest.raises(ConfigError, match=expected):
        dataclasses.replace(CONFIG, **changes)
