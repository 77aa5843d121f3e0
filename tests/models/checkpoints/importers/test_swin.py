import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import SwinConfig, SwinForImageClassification

from attendant.errors import ArtefactError, ConfigError, UnknownNameError
from tests.models.agreement import both_precisions
from tests.models.checkpoints.importers.saved import assert_same, imported, rewrite
from tests.models.checkpoints.importers.swins import seeing, swin_folder

# A bias of the keys adds the same to every score of a query.
INDIFFERENT = ("attention.key.bias",)


def swin(folder, **settings):
    return swin_folder(folder, SwinForImageClassification, SwinConfig, **settings)


@pytest.mark.planted
@both_precisions
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"image_size": 30},
        {"window_size": 4, "patch_size": 5},
        {"mlp_ratio": 3.0},
        {"qkv_bias": False, "hidden_act": "relu"},
        {"layer_norm_eps": 0.3, "mlp_ratio": 2.3, "hidden_act": "quick_gelu"},
    ],
    ids=str,
)
def test_an_imported_swin_computes_what_transformers_does(settings, dtype, tmp_path):
    folder = swin(tmp_path / "theirs", **settings)
    runs = seeing(settings.get("image_size", 40))
    assert_same(imported(folder), SwinForImageClassification, folder, runs, dtype, INDIFFERENT)


def test_files_have_the_names_of_version_4_and_those_of_version_5_are_read_too(tmp_path):
    folder = swin(tmp_path / "theirs")
    weights = folder / "model.safetensors"
    first = imported(folder)
    assert "swin.encoder.layers.0.blocks.0.attention.self.query.weight" in load_file(weights)
    theirs = SwinForImageClassification.from_pretrained(folder)
    names = theirs.state_dict()
    assert "swin.encoder.layers.0.blocks.0.attention.q_proj.weight" in names
    save_file({name: tensor.contiguous() for name, tensor in names.items()}, weights)
    second = imported(folder)
    pairs = zip(first.model.parameters(), second.model.parameters(), strict=True)
    assert all(torch.equal(*pair) for pair in pairs)


@pytest.mark.planted
def test_tables_that_version_4_stored_are_passed_over(tmp_path):
    folder = swin(tmp_path / "theirs")
    weights = folder / "model.safetensors"
    name = "swin.encoder.layers.0.blocks.0.attention.self.relative_position_index"
    save_file({**load_file(weights), name: torch.zeros(9, 9, dtype=torch.int64)}, weights)
    rewrite(folder / "config.json", path_norm=True, drop_path_rate=0.1, encoder_stride=32, hidden_size=16, num_layers=2)
    assert_same(imported(folder), SwinForImageClassification, folder, seeing(), torch.float32, INDIFFERENT)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("qkv_bias", 2),
        ("hidden_act", "mish"),
        ("use_absolute_embeddings", True),
        ("depths", 2),
        ("mystery", 3),
    ],
    ids=str,
)
def test_what_the_family_does_not_do_is_refused(field, value, tmp_path):
    folder = swin(tmp_path / "theirs")
    rewrite(folder / "config.json", **{field: value})
    with pytest.raises(ConfigError, match=field):
        imported(folder)


def test_a_window_larger_than_a_later_map_is_refused_as_its_table_does_not_fit(tmp_path):
    folder = swin(tmp_path / "theirs", window_size=8)
    with pytest.raises(ArtefactError, match="relative_position_bias_table"):
        imported(folder)


def test_a_model_without_a_classifier_is_refused_with_what_is_supported(tmp_path):
    folder = swin(tmp_path / "theirs")
    rewrite(folder / "config.json", architectures=["SwinModel"])
    with pytest.raises(UnknownNameError, match="SwinForImageClassification"):
        imported(folder)
