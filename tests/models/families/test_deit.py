import dataclasses

import pytest
import torch
from torch import nn

from models.families.deit import DistilledViT
from models.families.vit import ViT, ViTConfig
from tests.models.agreement import agrees_in_both_precisions, difference, parameters_that_do_not_matter, randomised
from tests.models.families.timm_vit_weights import timm_from_ours
from tests.models.families.vit_weights import deit_from_ours

CONFIG = ViTConfig(image_size=12, patch_size=4, channels=3, classes=5, layers=2, width=16, heads=2, mlp_width=24)
STRANGERS = {
    "timm": lambda model: timm_from_ours(model),
    "transformers": lambda model: lambda pixels: deit_from_ours(model)(pixel_values=pixels).logits,
}
every_stranger = pytest.mark.parametrize("stranger", STRANGERS.values(), ids=STRANGERS)


def classifier(dtype=torch.float64, **changes):
    torch.manual_seed(0)
    return randomised(DistilledViT(dataclasses.replace(CONFIG, **changes)), dtype)


def pixels_of(dtype=torch.float64, batch=3):
    return torch.randn(batch, 3, 12, 12, generator=torch.Generator().manual_seed(1)).to(dtype)


@agrees_in_both_precisions
@every_stranger
def test_it_equals_the_stranger_with_the_same_weights(stranger, dtype):
    model, pixels = classifier(dtype), pixels_of(dtype)
    yield model(pixels), stranger(model)(pixels)


@pytest.mark.planted
@every_stranger
def test_a_change_of_any_parameter_but_the_biases_of_keys_is_seen(stranger):
    model, pixels = classifier(), pixels_of()
    wanted = stranger(model)(pixels)
    blind = parameters_that_do_not_matter(model, lambda: difference(model(pixels), wanted))
    assert blind == {name for name, _ in model.named_parameters() if name.endswith("key.bias")}


def test_either_head_says_what_transformers_says_of_its_own_token():
    model, pixels = classifier(), pixels_of()
    theirs = deit_from_ours(model)(pixel_values=pixels)
    by_class, by_distillation = model.both(pixels)
    assert difference(by_class, theirs.cls_logits) <= 1e-12
    assert difference(by_distillation, theirs.distillation_logits) <= 1e-12
    assert difference(by_class, by_distillation) > 1e-3


@pytest.mark.planted
def test_exchanging_the_two_tokens_or_the_two_heads_is_seen():
    pixels = pixels_of()
    wanted = deit_from_ours(classifier())(pixel_values=pixels).logits
    tokens, heads = classifier(), classifier()
    tokens.class_token, tokens.distillation_token = tokens.distillation_token, tokens.class_token
    heads.head, heads.distillation_head = heads.distillation_head, heads.head
    assert difference(tokens(pixels), wanted) > 1e-3
    assert difference(heads(pixels), wanted) > 1e-3


def test_beside_the_token_its_position_and_its_head_it_has_the_parameters_of_a_vit():
    with_teacher = {name: tensor.shape for name, tensor in DistilledViT(CONFIG).state_dict().items()}
    plain = {name: tensor.shape for name, tensor in ViT(CONFIG).state_dict().items()}
    added = {"distillation_token", "distillation_head.weight", "distillation_head.bias"}
    assert set(with_teacher) - set(plain) == added
    assert {name for name in plain if with_teacher[name] != plain[name]} == {"positions.table"}
    assert with_teacher["positions.table"] == (1, 2 + 9, CONFIG.width)


def test_both_heads_have_the_hidden_layer_where_one_is_asked_for():
    model = classifier(head_width=8)
    assert [type(layer) for layer in model.head] == [nn.Linear, nn.Tanh, nn.Linear]
    assert [type(layer) for layer in model.distillation_head] == [nn.Linear, nn.Tanh, nn.Linear]
    assert model(pixels_of()).shape == (3, 5)


@pytest.mark.parametrize("row", range(3))
def test_another_image_of_the_batch_changes_no_logit_of_this_one(row):
    model, pixels = classifier(), pixels_of()
    assert difference(model(pixels[[row]]), model(pixels)[[row]]) <= 1e-12


def test_dropout_acts_in_training_and_rests_in_evaluation():
    model, pixels = classifier(dropout=0.5), pixels_of()
    assert torch.equal(model(pixels), model(pixels))  # the same computation twice, in one process
    model.train()
    assert difference(model(pixels), model(pixels)) > 1e-3


def test_every_parameter_is_trained():
    model = DistilledViT(CONFIG).double()
    model(pixels_of()).square().sum().backward()
    assert [name for name, parameter in model.named_parameters() if parameter.grad is None] == []
