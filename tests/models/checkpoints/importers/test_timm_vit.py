import dataclasses

import pytest
import torch

from attendant.errors import ConfigError
from models.checkpoints.importers.architecture import ReferenceModel
from models.checkpoints.importers.fields import Fields
from models.checkpoints.importers.timm import flatten_config
from models.checkpoints.importers.timm_vit import TIMM_DEIT, TIMM_HYBRID, TIMM_VIT
from models.families.hybrid_vit import HybridViTConfig
from models.families.resnet import ResNetConfig
from models.presets import PRESETS
from models.registry import FAMILIES
from tests.models.agreement import both_precisions, compare_models, parameters_that_do_not_matter, randomised
from tests.models.checkpoints.importers.paired import filled_with
from tests.models.checkpoints.importers.saved import imported, looking_at, saved_by_timm
from tests.models.families.timm_vit_weights import timm_from_ours
from tests.oracles.timm_models import timm, timm_model

TINY_VIT = dataclasses.replace(PRESETS["vit-tiny"].config, head_width=None)
STEM_ONLY = HybridViTConfig(
    backbone=ResNetConfig(stem_width=8, blocks=(), groups=4),
    vit=dataclasses.replace(TINY_VIT, image_size=6, patch_size=2, channels=8),
)
CASES = {
    "ViT": (TIMM_VIT, TINY_VIT),
    "DeiT": (TIMM_DEIT, PRESETS["deit-distilled-tiny"].config),
    "hybrid": (TIMM_HYBRID, PRESETS["hybrid-vit-tiny"].config),
    "hybrid of a stem": (TIMM_HYBRID, STEM_ONLY),
}
every_case = pytest.mark.parametrize(("architecture", "config"), CASES.values(), ids=CASES)
PUBLISHED = {"num_classes": 1000, "num_features": 768, "global_pool": "token", "pretrained_cfg": {"tag": "in1k"}}
CHANGED = {"embed_dim": 16, "depth": 2, "num_heads": 2, "mlp_ratio": 1.5, "img_size": 64, "in_chans": 1}


def theirs(architecture, config):
    """timm's model; its numbers are random, and float32 holds them exactly."""
    torch.manual_seed(0)
    model = randomised(FAMILIES[architecture.family].build(config), torch.float32)
    return timm_from_ours(model)


@pytest.mark.planted
@both_precisions
@every_case
def test_a_model_from_their_tensors_computes_what_timm_does(architecture, config, dtype, tmp_path):
    timms = theirs(architecture, config)
    ours = filled_with(architecture, config, timms.state_dict(), tmp_path)
    look = looking_at(config.pixel_shape)
    error, tolerance = compare_models(ours, look, timms, look, dtype)
    assert error() <= tolerance
    blind = parameters_that_do_not_matter(ours, error, 10 * tolerance)
    # A bias of the keys adds the same to every score of a query.
    assert all(name.endswith("attention.key.bias") for name in blind)


SMALL = {"embed_dim": 16, "depth": 2, "num_heads": 2, "mlp_ratio": 1.5, "num_classes": 5}
NAMES = {
    "vit_small_patch16_224": {"img_size": 12, "patch_size": 4},
    "deit_tiny_distilled_patch16_224": {"img_size": 12, "patch_size": 4, "in_chans": 1},
    "vit_tiny_r_s16_p8_224": {"img_size": 32},
}


@pytest.mark.parametrize("name", NAMES)
def test_a_folder_of_timms_is_imported_and_computes_what_timm_does(name, tmp_path):
    folder = saved_by_timm(tmp_path / "theirs", name, **SMALL, **NAMES[name])
    checkpoint = imported(folder)
    timms = timm.create_model(f"local-dir:{folder}", pretrained=True).eval().requires_grad_(False)
    look = looking_at(checkpoint.config.pixel_shape)
    error, tolerance = compare_models(checkpoint.model, look, timms, look, torch.float32)
    assert error() <= tolerance
    assert checkpoint.details["preprocessing"]["crop"] == list(checkpoint.config.pixel_shape[1:])


def config_of(architecture, /, **values):
    fields = Fields(flatten_config(values))
    config = architecture.config_from(ReferenceModel(fields=fields, generation={}, values=values))
    fields.refuse_rest()
    return config


@pytest.mark.parametrize(
    ("architecture", "name", "preset"),
    [
        (TIMM_VIT, "vit_tiny_patch16_224", "vit-ti-16"),
        (TIMM_VIT, "vit_small_patch32_224", "vit-s-32"),
        (TIMM_VIT, "vit_large_patch16_224", "vit-l-16"),
        (TIMM_VIT, "deit_base_patch16_224", "deit-b-16"),
        (TIMM_DEIT, "deit_small_distilled_patch16_224", "deit-s-16-distilled"),
        (TIMM_HYBRID, "vit_tiny_r_s16_p8_224", "r-vit-ti-16"),
        (TIMM_HYBRID, "vit_base_r50_s16_384", "r50-vit-b-16-384"),
    ],
)
def test_the_name_gives_the_sizes(architecture, name, preset):
    assert config_of(architecture, architecture=name, **PUBLISHED) == PRESETS[preset].config
    assert config_of(architecture, architecture=name, num_classes=7).classes == 7


@pytest.mark.parametrize("architecture", [TIMM_VIT, TIMM_DEIT, TIMM_HYBRID], ids=lambda one: one.model_type)
def test_arguments_change_the_sizes_of_the_name_as_they_do_in_timm(architecture):
    name = architecture.classes[0]
    config = config_of(architecture, architecture=name, model_args=CHANGED, num_classes=5)
    assert (config.pixel_shape, config.classes) == ((1, 64, 64), 5)
    with torch.device("meta"):
        timms = timm_model(name, num_classes=5, **CHANGED).state_dict()
        ours = timm_from_ours(FAMILIES[architecture.family].build(config)).state_dict()
    assert {key: one.shape for key, one in ours.items()} == {key: one.shape for key, one in timms.items()}


@pytest.mark.parametrize("ratio", [None, 2.0])
def test_the_mlp_is_four_times_as_wide_as_the_tokens_or_as_many_times_as_it_says(ratio):
    changes = {"embed_dim": 96, "num_heads": 3, "mlp_ratio": ratio}
    config = config_of(TIMM_VIT, architecture="vit_tiny_patch16_224", model_args=changes)
    assert config.mlp_width == 96 * (ratio or 4)


def test_an_image_that_the_backbone_does_not_divide_is_refused():
    with pytest.raises(ConfigError, match="img_size a multiple of 16; found 200"):
        config_of(TIMM_HYBRID, architecture="vit_base_r50_s16_224", model_args={"img_size": 200})


@pytest.mark.parametrize(
    ("architecture", "name"), [(one, name) for one in (TIMM_VIT, TIMM_DEIT, TIMM_HYBRID) for name in one.classes]
)
def test_every_name_is_timms_and_has_its_tensors(architecture, name):
    config = config_of(architecture, architecture=name)
    with torch.device("meta"):
        timms = timm_model(name, num_classes=1000).state_dict()
        ours = timm_from_ours(FAMILIES[architecture.family].build(config)).state_dict()
    assert {key: one.shape for key, one in ours.items()} == {key: one.shape for key, one in timms.items()}


@pytest.mark.parametrize(
    "fields",
    [
        {"architecture": "vit_base_patch16_224_miil"},
        {"global_pool": "avg"},
        {"num_classes": 0},
        {"no_embed_class": True},
    ],
    ids=str,
)
@pytest.mark.parametrize("architecture", [TIMM_VIT, TIMM_DEIT, TIMM_HYBRID], ids=lambda one: one.model_type)
def test_what_the_family_does_not_do_is_refused(architecture, fields):
    with pytest.raises(ConfigError, match=next(iter(fields))):
        config_of(architecture, **{"architecture": architecture.classes[0], **fields})
