import dataclasses

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from attendant.errors import ConfigError
from models.families.vision_encoder import VisionEncoder, VisionEncoderConfig
from models.size import OPERATIONS_A_MAC
from tests.models.agreement import agrees_in_both_precisions, difference, parameters_that_do_not_matter, randomised
from tests.models.families.captioning import ENCODER, GRID, image_batch
from tests.models.families.vision_encoder_weights import memory_by_others

KINDS = {"patches": {}, "patches, no biases of queries": {"qkv_bias": False}, "a CNN's grid": GRID}
every_kind = pytest.mark.parametrize("kind", KINDS)


def encoder(dtype=torch.float64, **changes):
    torch.manual_seed(0)
    return randomised(VisionEncoder(dataclasses.replace(ENCODER, **changes)), dtype)


@agrees_in_both_precisions
@every_kind
def test_every_token_equals_that_of_other_peoples_layers(kind, dtype):
    config = dataclasses.replace(ENCODER, **KINDS[kind])
    model, pixels = encoder(dtype, **KINDS[kind]), image_batch(dtype).pixels
    memory = model(pixels)
    assert memory.shape == (3, config.tokens, config.width)
    yield memory, memory_by_others(model, config, pixels)


@pytest.mark.planted
@every_kind
def test_a_change_of_any_parameter_but_the_biases_of_keys_is_seen(kind):
    model, pixels = encoder(**KINDS[kind]), image_batch().pixels
    wanted = memory_by_others(model, dataclasses.replace(ENCODER, **KINDS[kind]), pixels)
    blind = parameters_that_do_not_matter(model, lambda: difference(model(pixels), wanted))
    # A bias of the keys adds the same to every score of a query, which the softmax takes away again.
    assert blind == {name for name, _ in model.named_parameters() if name.endswith("key.bias")}


def test_a_class_token_stands_before_patches_and_none_before_a_grid():
    assert ENCODER.tokens == 1 + 9
    assert dataclasses.replace(ENCODER, **GRID).tokens == 36
    assert encoder(**GRID).class_token is None


def test_the_encoder_of_cptr_does_the_work_that_was_counted_in_another_library():
    config = VisionEncoderConfig(image_size=384)
    with torch.device("meta"), FlopCounterMode(display=False) as counter:
        VisionEncoder(config).eval()(torch.zeros(1, *config.pixel_shape))
    assert counter.get_total_flops() / OPERATIONS_A_MAC / 1e9 == pytest.approx(55.5, abs=0.05)


def test_dropout_acts_in_training_and_rests_in_evaluation():
    model, pixels = encoder(dropout=0.5), image_batch().pixels
    assert torch.equal(model(pixels), model(pixels))  # the same computation twice, in one process
    model.train()
    assert difference(model(pixels), model(pixels)) > 1e-3


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"image_size": 0}, "image_size to be a positive integer; found 0"),
        ({"patch_size": 5}, "image_size to be a multiple of 5 pixels a token; found 12"),
        ({"patch_size": 0}, "patch_size to be a positive integer; found 0"),
        ({"patch_size": None}, "either patch_size or grid; found patch_size None and grid None"),
        ({**GRID, "patch_size": 4}, "either patch_size or grid; found patch_size 4 and grid ConvGridConfig"),
        ({**GRID, "image_size": 13}, "image_size to be a multiple of 2 pixels a token; found 13"),
        ({"heads": 5}, "width to be a multiple of 5 heads; found 12"),
        ({"qkv_bias": None}, "qkv_bias to be true or false; found None"),
        ({"position_deviation": 2.0}, r"position_deviation in \[0, 1\); found 2.0"),
    ],
    ids=str,
)
def test_a_configuration_that_no_model_can_have_is_refused(changes, expected):
    with pytest.raises(ConfigError, match=expected):
        dataclasses.replace(ENCODER, **changes)
