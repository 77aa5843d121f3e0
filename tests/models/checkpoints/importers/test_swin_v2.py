import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import Swinv2Config, Swinv2ForImageClassification

from attendant.errors import ConfigError
from tests.models.agreement import both_precisions
from tests.models.checkpoints.importers.saved import assert_same, imported, rewrite
from tests.models.checkpoints.importers.swins import seeing, swin_folder


def swin_v2(folder, **settings):
    return swin_folder(folder, Swinv2ForImageClassification, Swinv2Config, **settings)


@pytest.mark.planted
@both_precisions
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"window_size": 8},
        {"pretrained_window_sizes": [2, 4]},
        {"pretrained_window_sizes": [0, 4]},
        {"qkv_bias": False, "hidden_act": "silu"},
        {"layer_norm_eps": 0.3, "mlp_ratio": 1.9},
        {"image_size": 30, "window_size": 2},
    ],
    ids=str,
)
def test_an_imported_swin_v2_computes_what_transformers_does(settings, dtype, tmp_path):
    folder = swin_v2(tmp_path / "theirs", **settings)
    runs = seeing(settings.get("image_size", 40))
    assert_same(imported(folder), Swinv2ForImageClassification, folder, runs, dtype)


def test_windows_of_zero_are_those_of_the_training(tmp_path):
    folder = swin_v2(tmp_path / "theirs")
    rewrite(folder / "config.json", pretrained_window_sizes=[0, 0])
    assert imported(folder).config.pretrained_windows is None
    rewrite(folder / "config.json", pretrained_window_sizes=[2, 4])
    assert imported(folder).config.pretrained_windows == (2, 4)


@pytest.mark.planted
def test_tables_that_version_4_stored_are_passed_over(tmp_path):
    folder = swin_v2(tmp_path / "theirs")
    weights, attention = folder / "model.safetensors", "swinv2.encoder.layers.0.blocks.0.attention.self."
    stored = {"relative_position_index": torch.zeros(9, 9), "relative_coords_table": torch.zeros(1, 5, 5, 2)}
    save_file({**load_file(weights), **{attention + name: table for name, table in stored.items()}}, weights)
    assert_same(imported(folder), Swinv2ForImageClassification, folder, seeing())


@pytest.mark.parametrize("image_size", [30, 28])
def test_a_map_that_transformers_rounds_the_other_way_into_other_windows_is_refused(image_size, tmp_path):
    folder = swin_v2(tmp_path / "theirs", image_size=image_size)
    with pytest.raises(ConfigError, match="windows of 3 cut alike"):
        imported(folder)


@pytest.mark.parametrize(
    ("field", "value", "named"),
    [
        ("qkv_bias", 2, "qkv_bias"),
        ("pretrained_window_sizes", [3], "pretrained_windows"),
        ("pretrained_window_sizes", 7, "pretrained_windows"),
        ("pretrained_window_sizes", float("inf"), "pretrained_windows"),
        ("pretrained_window_sizes", [-1, 3], "pretrained_windows"),
        ("mystery", 3, "mystery"),
    ],
    ids=str,
)
def test_what_the_family_does_not_do_is_refused(field, value, named, tmp_path):
    folder = swin_v2(tmp_path / "theirs")
    rewrite(folder / "config.json", **{field: value})
    with pytest.raises(ConfigError, match=named):
        imported(folder)
