import dataclasses

import pytest
import torch

from models.families.registry import FAMILIES, family_named
from models.presets import PRESETS
from tests.models.checkpoints.folders import TINY

# Two or three independent libraries agree on each of these; for the Transformer the formula of the paper gives them.
PARAMETERS = {
    "transformer-base": 63_045_632,
    "transformer-big": 214_171_648,
    "transformer-tiny": 11_632,
    "vit-b-16": 86_567_656,
    "vit-b-32": 88_224_232,
    "vit-l-16": 304_326_632,
    "vit-tiny": 5_621,
}


def parameters_of(family_name, config):
    with torch.device("meta"):
        model = family_named(family_name).build(config)
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_has_exactly_the_published_number_of_parameters(name):
    assert parameters_of(PRESETS[name].family, PRESETS[name].config) == PARAMETERS[name]


def test_attention_biases_add_four_vectors_to_each_of_eighteen_attentions():
    family_name, config = PRESETS["transformer-base"].family, PRESETS["transformer-base"].config
    with_biases = dataclasses.replace(config, attention_bias=True)
    assert parameters_of(family_name, with_biases) == 63_082_496 == 63_045_632 + 18 * 4 * 512


@pytest.mark.parametrize(("name", "dropout"), [("transformer-base", 0.1), ("transformer-big", 0.3), ("vit-b-16", 0.0)])
def test_a_published_preset_trains_with_the_published_dropout(name, dropout):
    assert PRESETS[name].config.dropout == dropout


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_of_its_familys_configuration(name):
    assert type(PRESETS[name].config) is FAMILIES[PRESETS[name].family].config


def test_every_family_has_a_tiny_preset():
    assert {PRESETS[name].family for name in TINY} == set(FAMILIES)


@pytest.mark.parametrize("name", TINY)
def test_a_tiny_preset_is_small_enough_for_every_test(name):
    assert PARAMETERS[name] < 20_000
