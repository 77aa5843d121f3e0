import dataclasses
import json
import stat

import pytest
import torch
from safetensors.torch import load_file, save_file

from attendant.errors import ArtefactError, ConfigError, UnknownNameError
from attendant.tokenizer import TOKENIZER_NAME
from models.checkpoints.file_names import CHAT_TEMPLATE_NAME, CONFIG_NAME, WEIGHTS_NAME
from models.checkpoints.store import load_checkpoint, save_checkpoint
from models.presets import PRESETS
from models.registry import FAMILIES
from tests.models.checkpoints.folders import TINY, rewrite_config, tiny_checkpoint, written_folder


@pytest.fixture
def folder(tmp_path):
    return written_folder(tmp_path / "checkpoint")


@pytest.mark.parametrize("preset", TINY)
def test_a_checkpoint_survives_the_disk(preset, tmp_path):
    saved = tiny_checkpoint(preset)
    save_checkpoint(saved, tmp_path / "deep" / "folder")
    loaded = load_checkpoint(tmp_path / "deep" / "folder")
    for field in ("name", "family", "config", "details", "example"):
        assert getattr(loaded, field) == getattr(saved, field), field
    weights, found = saved.model.state_dict(), loaded.model.state_dict()
    assert list(found) == list(weights)
    assert all(torch.equal(found[name], tensor) for name, tensor in weights.items())
    assert loaded.folder == tmp_path / "deep" / "folder"


def test_a_server_that_runs_as_another_user_can_read_every_file(folder):
    assert [path.name for path in folder.iterdir() if not path.stat().st_mode & stat.S_IROTH] == []


def test_a_loaded_model_is_ready_to_serve(folder):
    model = load_checkpoint(folder).model
    assert not any(module.training for module in model.modules())
    assert not any(parameter.requires_grad for parameter in model.parameters())
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_weights_in_another_precision_are_loaded_as_float32(kind, folder):
    weights = {name: tensor.to(kind) for name, tensor in load_file(folder / WEIGHTS_NAME).items()}
    save_file(weights, folder / WEIGHTS_NAME)
    found = load_checkpoint(folder).model.state_dict()
    assert {tensor.dtype for tensor in found.values()} == {torch.float32}
    assert all(torch.equal(found[name], tensor.float()) for name, tensor in weights.items())


def test_a_loaded_model_outlives_its_file(folder):
    model = load_checkpoint(folder).model
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    path = folder / WEIGHTS_NAME
    path.write_bytes(bytes(path.stat().st_size))
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


def test_companions_are_the_files_that_lie_beside_the_weights(folder):
    assert load_checkpoint(folder).companions() == ()
    (folder / TOKENIZER_NAME).write_text("{}")
    (folder / CHAT_TEMPLATE_NAME).write_text("")
    (folder / "README.md").write_text("not needed later")
    assert load_checkpoint(folder).companions() == (folder / TOKENIZER_NAME, folder / CHAT_TEMPLATE_NAME)
    assert tiny_checkpoint("vit-tiny").companions() == ()


def damaged(folder, how):
    weights = folder / WEIGHTS_NAME
    if how == "missing":
        weights.unlink()
    if how == "empty":
        weights.write_bytes(b"")
    if how == "cut":
        weights.write_bytes(weights.read_bytes()[:-5])
    if how == "not safetensors":
        weights.write_bytes(b"PK\x03\x04" * 100)
    if how == "a folder":
        weights.unlink()
        weights.mkdir()


@pytest.mark.parametrize("how", ["missing", "empty", "cut", "not safetensors", "a folder"])
def test_damaged_weights_are_refused_with_the_file_and_a_way_out(how, folder):
    damaged(folder, how)
    with pytest.raises(ArtefactError) as caught:
        load_checkpoint(folder)
    assert caught.value.expected == f"a whole safetensors file at {folder / WEIGHTS_NAME}"
    assert caught.value.found
    assert "copy the file again" in caught.value.remedy


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda weights: weights.pop("head.0.bias"), "head.0.bias"),
        (lambda weights: weights.update(stranger=torch.zeros(1)), "stranger"),
        (lambda weights: weights.update({"class_token": torch.zeros(1, 1, 17)}), "class_token"),
        (lambda weights: weights.update({"class_token": torch.zeros(1, 16)}), "class_token"),
    ],
    ids=["one too few", "one too many", "a wrong size", "a wrong rank"],
)
def test_weights_of_another_configuration_are_refused_by_name(change, name, folder):
    weights = load_file(folder / WEIGHTS_NAME)
    change(weights)
    save_file(weights, folder / WEIGHTS_NAME)
    with pytest.raises(ArtefactError) as caught:
        load_checkpoint(folder)
    assert str(folder / WEIGHTS_NAME) in caught.value.expected
    assert caught.value.found == f"1 that differ in name or shape, first ['{name}']"
    assert "config.json" in caught.value.remedy


def test_a_missing_configuration_is_refused_with_its_path(tmp_path):
    with pytest.raises(ArtefactError) as caught:
        load_checkpoint(tmp_path)
    assert str(tmp_path / CONFIG_NAME) in caught.value.expected
    assert "No such file" in caught.value.found
    assert caught.value.remedy == "name a checkpoint folder"


@pytest.mark.parametrize(
    "text", ['{"name": "x"', "", "\udce9", "null", "5", "[]", '"name family config details example"']
)
def test_a_configuration_that_is_no_json_object_is_refused_with_its_path(text, folder):
    (folder / CONFIG_NAME).write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(ArtefactError) as caught:
        load_checkpoint(folder)
    assert str(folder / CONFIG_NAME) in caught.value.expected


@pytest.mark.parametrize("part", ["name", "family", "config", "details", "example"])
def test_a_configuration_that_lacks_a_part_is_refused(part, folder):
    rewrite_config(folder, **{part: None})
    with pytest.raises(ArtefactError) as caught:
        load_checkpoint(folder)
    assert caught.value.found == f"no ['{part}']"


@pytest.mark.parametrize("family", ["resnet", 5, ["vit"]], ids=str)
def test_an_unknown_family_is_refused_with_those_that_exist(family, folder):
    rewrite_config(folder, family=family)
    with pytest.raises(UnknownNameError) as caught:
        load_checkpoint(folder)
    assert caught.value.found == repr(family)
    assert all(name in caught.value.expected for name in FAMILIES)


@pytest.mark.parametrize(
    ("config", "expected", "found"),
    [
        ({"widht": 16}, "only fields of ViTConfig", r"\['widht'\]"),
        ({"width": 17}, "width to be a multiple of", "17"),
        ([], "", ""),
        (5, "", ""),
    ],
    ids=str,
)
def test_a_configuration_that_the_family_cannot_have_is_refused(config, expected, found, folder):
    rewrite_config(folder, config=config)
    with pytest.raises(ConfigError, match=f"{expected}.*found {found}"):
        load_checkpoint(folder)


def test_a_field_that_has_no_default_must_be_given(tmp_path):
    folder = written_folder(tmp_path / "translator", "transformer-tiny")
    config = dataclasses.asdict(PRESETS["transformer-tiny"].config)
    del config["vocabulary_size"]
    rewrite_config(folder, config=config)
    with pytest.raises(ConfigError, match=r"every field of Seq2SeqConfig; found .*vocabulary_size"):
        load_checkpoint(folder)


def test_the_configuration_is_written_for_people_to_read(folder):
    text = (folder / CONFIG_NAME).read_text()
    assert text.endswith("}\n")
    assert json.loads(text)["config"]["image_size"] == 12
    assert text.count("\n") > 10
