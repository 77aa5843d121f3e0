import dataclasses

import pytest
import torch

from attendant.errors import ConfigError
from models.families.hybrid_vit import HybridViT, HybridViTConfig
from models.families.resnet import ResNetConfig
from models.families.vit import ViTConfig
from models.presets import PRESETS
from tests.models.agreement import agrees_in_both_precisions, difference, parameters_that_do_not_matter, randomised
from tests.models.families.timm_vit_weights import timm_backbone, timm_from_ours
from tests.oracles.timm_models import timm_model

VIT = ViTConfig(image_size=3, patch_size=1, channels=64, classes=5, layers=2, width=16, heads=2, mlp_width=24)
BACKBONE = ResNetConfig(stem_width=8, blocks=(2, 1), groups=4)
CONFIG = HybridViTConfig(backbone=BACKBONE, vit=VIT)
STEM_ONLY = HybridViTConfig(
    backbone=dataclasses.replace(BACKBONE, blocks=()),
    vit=dataclasses.replace(VIT, image_size=6, patch_size=2, channels=8),
)
FOUR_STAGES = HybridViTConfig(
    backbone=ResNetConfig(channels=1, stem_width=8, blocks=(1, 1, 1, 1), groups=2),
    vit=dataclasses.replace(VIT, image_size=2, channels=256),
)
CONFIGS = {"two stages": CONFIG, "stem only": STEM_ONLY, "four stages": FOUR_STAGES}
every_config = pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)


def classifier(config, dtype=torch.float64):
    torch.manual_seed(0)
    return randomised(HybridViT(config), dtype)


def pixels_of(config, dtype=torch.float64, batch=3):
    shape = config.pixel_shape
    return torch.randn(batch, *shape, generator=torch.Generator().manual_seed(1)).to(dtype)


@agrees_in_both_precisions
@every_config
def test_it_equals_timms_hybrid_with_the_same_weights(config, dtype):
    model, pixels = classifier(config, dtype), pixels_of(config, dtype)
    yield model(pixels), timm_from_ours(model)(pixels)


def test_a_stem_of_full_width_equals_that_of_timms_registered_hybrid():
    config = HybridViTConfig(
        backbone=ResNetConfig(blocks=()), vit=dataclasses.replace(VIT, image_size=8, patch_size=8, channels=64)
    )
    model, pixels = classifier(config), pixels_of(config)
    settings = {"img_size": 32, "embed_dim": 16, "depth": 2, "num_heads": 2, "mlp_ratio": 1.5, "num_classes": 5}
    theirs = timm_model("vit_tiny_r_s16_p8_224", **settings).double()
    theirs.load_state_dict(timm_from_ours(model).state_dict())
    assert difference(model(pixels), theirs(pixels)) <= 1e-12


@pytest.mark.parametrize(
    ("preset", "registered"),
    [
        ("r-vit-ti-16", "vit_tiny_r_s16_p8_224"),
        ("r26-vit-s-32", "vit_small_r26_s32_224"),
        ("r50-vit-b-16", "vit_base_r50_s16_224"),
        ("r50-vit-b-16-384", "vit_base_r50_s16_384"),
        ("r50-vit-l-32", "vit_large_r50_s32_224"),
    ],
)
def test_the_backbone_compared_with_is_layer_for_layer_that_of_timms_registered_hybrid(preset, registered):
    config = PRESETS[preset].config
    with torch.device("meta"):
        embed = timm_model(registered).patch_embed
        ours = timm_backbone(config.backbone)
    assert str(ours) == str(embed.backbone)
    assert embed.num_patches == (config.vit.image_size // config.vit.patch_size) ** 2


@pytest.mark.planted
@every_config
def test_a_change_of_any_parameter_but_the_biases_of_keys_is_seen(config):
    model, pixels = classifier(config), pixels_of(config)
    wanted = timm_from_ours(model)(pixels)
    blind = parameters_that_do_not_matter(model, lambda: difference(model(pixels), wanted))
    assert blind == {name for name, _ in model.named_parameters() if name.endswith("key.bias")}


def test_the_image_is_as_many_times_larger_than_the_features_as_the_backbone_strides():
    assert CONFIG.pixel_shape == (3, 24, 24)
    assert STEM_ONLY.pixel_shape == (3, 24, 24)
    assert FOUR_STAGES.pixel_shape == (1, 64, 64)
    assert CONFIG.classes == 5


@pytest.mark.parametrize("row", range(3))
def test_another_image_of_the_batch_changes_no_logit_of_this_one(row):
    model, pixels = classifier(CONFIG), pixels_of(CONFIG)
    assert difference(model(pixels[[row]]), model(pixels)[[row]]) <= 1e-12


@every_config
def test_every_parameter_is_trained(config):
    model = HybridViT(config).double()
    model(pixels_of(config)).square().sum().backward()
    assert [name for name, parameter in model.named_parameters() if parameter.grad is None] == []


def test_a_transformer_that_does_not_fit_the_features_is_refused():
    with pytest.raises(ConfigError, match="the ViT's channels to be the backbone's width 64; found 3"):
        HybridViTConfig(backbone=BACKBONE, vit=dataclasses.replace(VIT, channels=3))
