import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file, save_file

from attendant.errors import ArtefactError, ConfigError
from models.checkpoints.importers.architecture import ReferenceModel
from models.checkpoints.importers.fields import Fields
from models.checkpoints.importers.timm import flatten_config
from models.checkpoints.importers.timm_swin import TIMM_SWIN, TIMM_SWIN_V2
from models.checkpoints.store import load_checkpoint
from models.families.swin import SwinConfig
from models.families.swin_v2 import SwinV2Config
from models.presets import PRESETS
from models.registry import FAMILIES
from tests.models.agreement import both_precisions, compare_models, parameters_that_do_not_matter, randomised
from tests.models.checkpoints.importers.paired import filled_with, shapes_of
from tests.models.checkpoints.importers.saved import imported, looking_at, saved_by_timm
from tests.models.families.swin_weights import timm_from_ours
from tests.oracles.timm_models import timm, timm_model

EVERY = [TIMM_SWIN, TIMM_SWIN_V2]
every_architecture = pytest.mark.parametrize("architecture", EVERY, ids=lambda one: one.model_type)
NAMES = [(architecture, name) for architecture in EVERY for name in architecture.classes]
# Maps of 12, 6 and 3 places: windows of 3 are shifted on the first two; windows of 6 shrink on the last.
SIZES = {"image_size": 48, "classes": 5, "depths": (2, 2, 1), "heads": (1, 2, 2), "width": 8, "mlp_ratio": 2}
CASES = {
    "Swin, windows of 3": (TIMM_SWIN, SwinConfig(**SIZES, window=3)),
    "Swin, windows of 6": (TIMM_SWIN, SwinConfig(**SIZES, window=6)),
    "SwinV2, windows of 3": (TIMM_SWIN_V2, SwinV2Config(**SIZES, window=3)),
    "SwinV2, trained before": (TIMM_SWIN_V2, SwinV2Config(**SIZES, window=6, pretrained_windows=(3, 0, 5))),
}
INDIFFERENT = ("attention.key.bias",)  # it adds the same to every score of a query
SMALL = {
    "img_size": 48,
    "embed_dim": 8,
    "depths": (2, 2, 1),
    "num_heads": (1, 2, 2),
    "window_size": 3,
    "mlp_ratio": 2.0,
    "num_classes": 5,
}


@pytest.mark.planted
@both_precisions
@pytest.mark.parametrize(("architecture", "config"), CASES.values(), ids=CASES)
def test_a_model_from_their_tensors_computes_what_timm_does(architecture, config, dtype, tmp_path):
    torch.manual_seed(0)
    # Its numbers are random, and float32 holds them exactly.
    timms = timm_from_ours(randomised(FAMILIES[architecture.family].build(config), torch.float32))
    ours = filled_with(architecture, config, timms.state_dict(), tmp_path)
    look = looking_at(config.pixel_shape)
    error, tolerance = compare_models(ours, look, timms, look, dtype)
    assert error() <= tolerance
    blind = parameters_that_do_not_matter(ours, error, 10 * tolerance)
    assert {name for name in blind if not name.endswith(INDIFFERENT)} == set()


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("swin_tiny_patch4_window7_224", {}),
        ("swin_base_patch4_window7_224", {"in_chans": 1, "patch_size": 2, "img_size": 24}),
        ("swinv2_tiny_window8_256", {"mlp_ratio": 2.3}),
        ("swinv2_small_window16_256", {"pretrained_window_sizes": (3, 2, 5), "drop_path_rate": 0.2}),
    ],
    ids=str,
)
def test_a_folder_of_timms_is_imported_and_computes_what_timm_does(name, settings, tmp_path):
    folder = saved_by_timm(tmp_path / "theirs", name, **{**SMALL, **settings})
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
        (TIMM_SWIN, "swin_tiny_patch4_window7_224", "swin-t"),
        (TIMM_SWIN, "swin_small_patch4_window7_224", "swin-s"),
        (TIMM_SWIN, "swin_base_patch4_window7_224", "swin-b"),
        (TIMM_SWIN_V2, "swinv2_tiny_window8_256", "swin-v2-t"),
        (TIMM_SWIN_V2, "swinv2_small_window8_256", "swin-v2-s"),
        (TIMM_SWIN_V2, "swinv2_base_window8_256", "swin-v2-b"),
        (TIMM_SWIN_V2, "swinv2_tiny_window16_256", "swin-v2-t-w16"),
    ],
)
def test_the_name_gives_the_sizes(architecture, name, preset):
    published = {"num_classes": 1000, "num_features": 768, "global_pool": "avg", "pretrained_cfg": {"tag": "in1k"}}
    assert config_of(architecture, architecture=name, **published) == PRESETS[preset].config
    assert config_of(architecture, architecture=name, num_classes=7).classes == 7


@pytest.mark.parametrize(("architecture", "name"), NAMES)
def test_every_tensor_of_every_name_has_a_place_of_its_shape(architecture, name):
    with torch.device("meta"):
        timms = timm_model(name).state_dict()
    ours, made = shapes_of(architecture, config_of(architecture, architecture=name), timms)
    assert ours == made


@every_architecture
def test_arguments_change_the_sizes_of_the_name_as_they_do_in_timm(architecture):
    name = architecture.classes[0]
    config = config_of(architecture, architecture=name, model_args={**SMALL, "in_chans": 1})
    assert (config.pixel_shape, config.classes, config.window, config.sides) == ((1, 48, 48), 5, 3, (12, 6, 3))
    with torch.device("meta"):
        timms = timm_model(name, **SMALL, in_chans=1).state_dict()
    ours, made = shapes_of(architecture, config, timms)
    assert ours == made


@every_architecture
@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"img_size": 40}, "whose maps windows of 3 fill.* 40 with a map of 10"),
        ({"img_size": 72}, "whose maps windows of 3 fill.* 72 with a map of 5"),
        ({"img_size": 50}, "img_size a multiple of the patch_size 4"),
        ({"img_size": [48, 60]}, "img_size"),
        ({"window_size": [3, 3, 2]}, "window_size"),
        ({"always_partition": True}, "always_partition"),
        ({"qkv_bias": False}, "qkv_bias"),
        ({"global_pool": "max"}, "global_pool"),
        ({"num_classes": 0}, "num_classes"),
        ({"depths": [2, 2]}, "heads of 2 stages"),
        ({"depths": 2}, "depths"),
        ({"head_dim": 4}, "head_dim"),
        ({"norm_layer": "rmsnorm"}, "norm_layer"),
        ({"dynamic_img_size": True}, "dynamic_img_size"),
    ],
    ids=str,
)
def test_what_the_family_does_not_do_is_refused(architecture, arguments, named):
    with pytest.raises(ConfigError, match=named):
        config_of(architecture, architecture=architecture.classes[0], model_args={**SMALL, **arguments})


@every_architecture
def test_another_architecture_is_refused_with_those_that_are_supported(architecture):
    with pytest.raises(ConfigError, match=architecture.classes[0]):
        config_of(architecture, architecture="swin_s3_tiny_224")


@pytest.mark.parametrize("trained", [(-1, 3, 3), (3, 3)], ids=str)
def test_windows_of_an_earlier_training_that_are_not_one_a_stage_are_refused(trained):
    arguments = {**SMALL, "pretrained_window_sizes": list(trained)}
    with pytest.raises(ConfigError, match="pretrained_windows"):
        config_of(TIMM_SWIN_V2, architecture="swinv2_tiny_window8_256", model_args=arguments)


def test_tables_that_older_versions_stored_are_passed_over(tmp_path):
    folder = saved_by_timm(tmp_path / "theirs", "swin_tiny_patch4_window7_224", **SMALL)
    weights, block = folder / "model.safetensors", "layers.0.blocks.1."
    first = imported(folder)
    stored = {"attn.relative_position_index": torch.zeros(9, 9), "attn_mask": torch.zeros(16, 9, 9)}
    save_file({**load_file(weights), **{block + name: table for name, table in stored.items()}}, weights)
    pairs = zip(first.model.parameters(), imported(folder).model.parameters(), strict=True)
    assert all(torch.equal(*pair) for pair in pairs)


def test_merging_at_the_end_of_a_stage_as_in_the_authors_files_is_refused_by_name(tmp_path):
    folder = saved_by_timm(tmp_path / "theirs", "swin_tiny_patch4_window7_224", **SMALL)
    weights = folder / "model.safetensors"
    moved = {"layers.1.downsample": "layers.0.downsample", "layers.2.downsample": "layers.1.downsample"}
    tensors = {}
    for name, tensor in load_file(weights).items():
        stage = name[: len("layers.1.downsample")]
        tensors[name.replace(stage, moved[stage]) if stage in moved else name] = tensor
    save_file(tensors, weights)
    with pytest.raises(ArtefactError, match=r"layers\.2\.downsample"):
        imported(folder)


def test_the_command_imports_a_folder_and_says_that_it_was_not_compared(tmp_path):
    folder, out = saved_by_timm(tmp_path / "theirs", "swinv2_tiny_window8_256", **SMALL), tmp_path / "ours"
    words = [sys.executable, "-m", "attendant", "models", "import", str(folder), "--out", str(out), "--name", "mine"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("mine: swinv2_tiny_window8_256 as swin_v2, ")
    assert "not compared with timm" in done.stdout
    timms = timm.create_model(f"local-dir:{folder}", pretrained=True).eval().requires_grad_(False)
    ours = load_checkpoint(out)
    look = looking_at(ours.config.pixel_shape)
    error, tolerance = compare_models(ours.model, look, timms, look, torch.float32)
    assert error() <= tolerance
