"""What is observed is what the library's own eager attention reports."""

import dataclasses

import pytest
import torch

from models.explain.observe import observe
from models.families.vit import ViT, ViTConfig
from models.layers.attend import Attend
from tests.models.agreement import agrees_in_both_precisions, difference, randomised
from tests.models.families.vit_weights import stranger_from_ours
from tests.models.float64_oracles import oracle_precision

CONFIG = ViTConfig(image_size=12, patch_size=4, channels=3, classes=5, layers=2, width=16, heads=2, mlp_width=24)


def classifier(dtype=torch.float64, **changes):
    torch.manual_seed(0)
    return randomised(ViT(dataclasses.replace(CONFIG, **changes)), dtype)


def pixels_of(dtype=torch.float64):
    return torch.randn(2, 3, 12, 12, generator=torch.Generator().manual_seed(1)).to(dtype)


@agrees_in_both_precisions
def test_a_vit_s_maps_are_those_of_transformers(dtype):
    model, pixels = classifier(dtype), pixels_of(dtype)
    theirs = stranger_from_ours(model)
    theirs.set_attn_implementation("eager")
    with oracle_precision(dtype):
        wanted = theirs(pixel_values=pixels, output_attentions=True).attentions
    with observe(model) as maps:
        model(pixels)
    assert list(maps) == ["blocks.0.attention", "blocks.1.attention"]
    for (found,), want in zip(maps.values(), wanted, strict=True):
        yield found, want
    assert difference(maps["blocks.0.attention"][0], wanted[1]) > 1e-3


def test_nothing_is_watched_afterwards_even_if_the_model_fails():
    model = classifier()
    with pytest.raises(RuntimeError), observe(model):
        model(torch.zeros(1, 5, 12, 12).double())
    assert [layer for layer in model.modules() if isinstance(layer, Attend) and layer.observer is not None] == []


def test_watching_changes_an_answer_by_rounding_only():
    model, pixels = classifier(), pixels_of()
    alone = model(pixels)
    with observe(model):
        assert difference(model(pixels), alone) <= 1e-12


def test_only_the_layers_asked_for_are_watched():
    model = classifier()
    with observe(model, inside="blocks.1") as maps:
        model(pixels_of())
    assert list(maps) == ["blocks.1.attention"]
