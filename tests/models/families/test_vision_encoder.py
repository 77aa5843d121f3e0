import dataclasses

import pytest
import torch
from transformers import ViTConfig, ViTModel

from models.errors import ConfigError
from models.families.vision_encoder import VisionEncoder
from tests.models.agreement import TOLERANCES, both_precisions, difference, parameters_that_do_not_matter, randomised
from tests.models.families.captioning import ENCODER, image_batch
from tests.models.families.vit_weights import copy_up_to_the_head

with_and_without_biases = pytest.mark.parametrize("qkv_bias", [True, False], ids=["biases", "no biases"])


def encoder(dtype=torch.float64, **changes):
    torch.manual_seed(0)
    return randomised(VisionEncoder(dataclasses.replace(ENCODER, **changes)), dtype)


def memory_by_stranger(ours, pixels, qkv_bias):
    config = ViTConfig(
        image_size=12,
        patch_size=4,
        num_hidden_layers=2,
        hidden_size=12,
        num_attention_heads=2,
        intermediate_size=20,
        qkv_bias=qkv_bias,
        layer_norm_eps=1e-6,
    )
    theirs = ViTModel(config, add_pooling_layer=False).to(pixels.dtype).eval().requires_grad_(False)
    copy_up_to_the_head(ours, theirs)
    return theirs(pixel_values=pixels).last_hidden_state


@both_precisions
@with_and_without_biases
def test_every_token_equals_that_of_the_strangers_vit(qkv_bias, dtype):
    model, pixels = encoder(dtype, qkv_bias=qkv_bias), image_batch(dtype).pixels
    memory = model(pixels)
    assert memory.shape == (3, ENCODER.tokens, ENCODER.width)
    assert difference(memory, memory_by_stranger(model, pixels, qkv_bias)) <= TOLERANCES[dtype]


@with_and_without_biases
def test_a_change_of_any_parameter_but_the_biases_of_keys_is_seen(qkv_bias):
    model, pixels = encoder(qkv_bias=qkv_bias), image_batch().pixels
    wanted = memory_by_stranger(model, pixels, qkv_bias)
    blind = parameters_that_do_not_matter(model, lambda: difference(model(pixels), wanted), 1e-5)
    assert blind == {name for name, _ in model.named_parameters() if name.endswith("key.bias")}


def test_dropout_acts_in_training_and_rests_in_evaluation():
    model, pixels = encoder(dropout=0.5), image_batch().pixels
    assert torch.equal(model(pixels), model(pixels))
    model.train()
    assert difference(model(pixels), model(pixels)) > 1e-3


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"image_size": 0}, "image_size to be a positive integer; found 0"),
        ({"patch_size": 5}, "image_size to be a multiple of patch_size 5; found 12"),
        ({"heads": 5}, "width to be a multiple of 5 heads; found 12"),
        ({"qkv_bias": None}, "qkv_bias to be true or false; found None"),
        ({"position_deviation": 2.0}, r"position_deviation in \[0, 1\); found 2.0"),
    ],
    ids=str,
)
def test_a_configuration_that_no_model_can_have_is_refused(changes, expected):
    with pytest.raises(ConfigError, match=expected):
        dataclasses.replace(ENCODER, **changes)
