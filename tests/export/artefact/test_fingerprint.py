import shutil
from pathlib import Path

import pytest

from attendant.errors import ArtefactError
from attendant.manifest import Manifest
from export.artefact import fingerprint
from export.artefact.fingerprint import current_artefact, fingerprint_of, require_unchanged
from models import layers
from models.checkpoints.resolve import checkpoint_named
from models.checkpoints.store import save_checkpoint
from tests.models.checkpoints.custom_models import own_file

PLAIN = {"explain": False, "uint8": False, "precision": "fp32"}


@pytest.fixture
def checkpoint_folder(tmp_path):
    """The preset ``vit-tiny`` as a checkpoint folder."""
    folder = tmp_path / "checkpoint"
    save_checkpoint(checkpoint_named("vit-tiny"), folder)
    return folder


@pytest.mark.parametrize("name", ["vit-tiny", "digits-vit"])
def test_the_same_export_has_the_same_fingerprint_and_another_option_another(name):
    plain = fingerprint_of(name, PLAIN)
    assert fingerprint_of(name, dict(reversed(PLAIN.items()))) == plain
    others = {fingerprint_of(name, {**PLAIN, **change}) for change in ({"explain": True}, {"precision": "fp16"})}
    assert len(others | {plain}) == 3


def test_two_presets_are_two_exports():
    assert fingerprint_of("vit-tiny", PLAIN) != fingerprint_of("swin-tiny", PLAIN)


def test_a_checkpoint_is_known_by_its_content_and_not_by_its_path(checkpoint_folder, tmp_path):
    copy = shutil.copytree(checkpoint_folder, tmp_path / "copy")
    assert fingerprint_of(str(copy), PLAIN) == fingerprint_of(str(checkpoint_folder), PLAIN)
    (copy / "README.md").write_text("a card is in no graph")
    assert fingerprint_of(str(copy), PLAIN) == fingerprint_of(str(checkpoint_folder), PLAIN)


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json"])
def test_other_weights_configurations_and_companions_are_other_exports(name, checkpoint_folder):
    (checkpoint_folder / "tokenizer.json").write_text("{}")
    before = fingerprint_of(str(checkpoint_folder), PLAIN)
    path = checkpoint_folder / name
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert fingerprint_of(str(checkpoint_folder), PLAIN) != before


def test_another_version_of_a_tool_is_another_export(monkeypatch):
    before = fingerprint_of("vit-tiny", PLAIN)
    monkeypatch.setattr(fingerprint, "versions", lambda: {"torch": "2.14.0"})
    assert fingerprint_of("vit-tiny", PLAIN) != before


def test_the_code_is_that_of_models_and_of_the_exporter():
    assert Path(fingerprint.__file__) in (fingerprint.ROOT / "export").rglob("*.py")
    assert Path(layers.__file__) in (fingerprint.ROOT / "models").rglob("*.py")


def test_other_code_is_another_export(monkeypatch, tmp_path):
    for name in ("models", "export"):
        (tmp_path / name / "train").mkdir(parents=True)
        (tmp_path / name / "quality").mkdir()
    (tmp_path / "models" / "vit.py").write_text("width = 16")
    monkeypatch.setattr(fingerprint, "ROOT", tmp_path)
    before = fingerprint_of("vit-tiny", PLAIN)
    (tmp_path / "models" / "train" / "digits.py").write_text("training is in no graph")
    (tmp_path / "export" / "quality" / "budgets.py").write_text("nor is what is measured of one")
    assert fingerprint_of("vit-tiny", PLAIN) == before
    (tmp_path / "models" / "vit.py").write_text("width = 17")
    assert fingerprint_of("vit-tiny", PLAIN) != before


def test_a_readers_own_model_is_known_by_its_files_and_its_weights(tmp_path):
    path = own_file(tmp_path)
    before = fingerprint_of(str(path), PLAIN)
    assert fingerprint_of(str(path), PLAIN) == before
    (tmp_path / "neighbour.py").write_text("HEADS = 4\n")
    assert fingerprint_of(str(path), PLAIN) != before


def test_a_folder_that_is_no_checkpoint_has_a_fingerprint_that_no_artefact_has(tmp_path, tiny_classifier):
    assert current_artefact(tiny_classifier, fingerprint_of(str(tmp_path), PLAIN)) is None


def test_an_artefact_is_current_while_it_is_whole_and_of_that_fingerprint(tiny_classifier, tmp_path):
    folder = shutil.copytree(tiny_classifier, tmp_path / "artefact")
    known = fingerprint_of("vit-tiny", PLAIN)
    assert current_artefact(folder, known) == Manifest.read(folder)
    assert current_artefact(folder, "another") is None
    (folder / "model.onnx").write_bytes((folder / "model.onnx").read_bytes()[:-1])
    assert current_artefact(folder, known) is None
    assert current_artefact(tmp_path / "nowhere", known) is None


def test_a_checkpoint_that_changes_during_its_export_is_refused(checkpoint_folder):
    before = fingerprint_of(str(checkpoint_folder), PLAIN)
    require_unchanged(str(checkpoint_folder), PLAIN, before)
    config = checkpoint_folder / "config.json"
    config.write_text(config.read_text() + " ")
    with pytest.raises(ArtefactError, match="export again when nothing is writing them"):
        require_unchanged(str(checkpoint_folder), PLAIN, before)


def test_a_program_that_changes_during_its_export_is_refused(tmp_path):
    program = tmp_path / "model.pt2"
    program.write_bytes(b"one")
    before = fingerprint_of(str(program), PLAIN)
    require_unchanged(str(program), PLAIN, before)
    program.write_bytes(b"two")
    with pytest.raises(ArtefactError, match="export again when nothing is writing them"):
        require_unchanged(str(program), PLAIN, before)
