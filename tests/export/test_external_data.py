"""Weights in a file of their own belong to the artefact as its graphs do."""

import dataclasses
import os
import shutil

import onnx
import pytest

from attendant.errors import ArtefactError
from attendant.manifest import Manifest, sha256_of
from export.artefact.fingerprint import current_artefact
from export.parity.check import check_parity
from export.parity.parity import levels_of
from serving.runtime.create_runners import create_runners

DATA_NAME = "model.onnx.data"


def with_external_data(artefact, folder):
    """A copy of a classifier's artefact whose weights lie in ``model.onnx.data``."""
    shutil.copytree(artefact, folder)
    model = onnx.load(folder / "model.onnx")
    onnx.save_model(model, folder / "model.onnx", save_as_external_data=True, location=DATA_NAME, size_threshold=100)
    return trusted(folder)


def trusted(folder):
    """Let the manifest know the files as they are."""
    files = {path.name: sha256_of(path) for path in sorted(folder.glob("*.onnx*"))}
    dataclasses.replace(Manifest.read(folder), files=files).write(folder)
    return folder


@pytest.fixture
def external(tiny_classifier, tmp_path):
    return with_external_data(tiny_classifier, tmp_path / "artefact")


def test_weights_in_their_own_file_are_part_of_what_is_checked(external):
    manifest = Manifest.read(external)
    assert manifest.files.keys() == {"model.onnx", DATA_NAME, "model.tensorrt.onnx"}
    assert current_artefact(external, manifest.fingerprint) == manifest
    assert all(level.passed for level in levels_of(check_parity(external)))


@pytest.mark.planted
@pytest.mark.parametrize("name", ["model.onnx", DATA_NAME])
def test_a_truncated_file_is_found_by_name_before_anything_runs(name, external):
    os.truncate(external / name, (external / name).stat().st_size - 1)
    with pytest.raises(ArtefactError, match=rf"{name} with SHA-256 .* as its manifest says; found .*; export again"):
        check_parity(external)
    assert current_artefact(external, Manifest.read(external).fingerprint) is None


@pytest.mark.planted
def test_a_truncated_file_that_its_manifest_trusts_is_refused_by_the_runtime(external):
    os.truncate(external / DATA_NAME, 100)
    trusted(external)
    with pytest.raises(ArtefactError, match=r"(?s)an ONNX graph at .*model\.onnx; found .*; export the model again"):
        create_runners(external, Manifest.read(external))


@pytest.mark.planted
def test_a_missing_file_of_weights_is_found_by_name(external):
    (external / DATA_NAME).unlink()
    with pytest.raises(ArtefactError, match=rf"{DATA_NAME} with SHA-256 .*; found no file; export again"):
        check_parity(external)
