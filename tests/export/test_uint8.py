"""Graphs that take the bytes of images go the same road: parity on every level, and a damage that is seen."""

import shutil

import pytest

from attendant.manifest import Manifest
from attendant.tensor_names import EXPLAINED
from export.artefact.stage import export_onnx
from export.parity.check import check_parity
from export.parity.parity import levels_of
from export.targets.check import validate_for_target
from models.tasks.from_bytes import takes_bytes
from tests.export.parity.test_check import damage, failed, nudged


@pytest.mark.planted
@pytest.mark.parametrize(
    ("artefact", "explain"),
    [("digits_in_bytes", True), pytest.param("captioner_in_bytes", False, marks=pytest.mark.slow)],
)
def test_every_level_agrees_on_bytes_and_a_changed_weight_fails(artefact, explain, tmp_path, request):
    folder = shutil.copytree(request.getfixturevalue(artefact), tmp_path / "artefact")
    manifest = Manifest.read(folder)
    assert takes_bytes(manifest.graphs[0])
    assert (EXPLAINED in [graph.name for graph in manifest.graphs]) is explain
    assert [check for check in validate_for_target(folder, "tensorrt")[1] if check.violations] == []
    assert all(level.passed for level in levels_of(check_parity(folder)))
    damage(folder, manifest.graphs[0].name, nudged)
    assert manifest.graphs[0].name in {graph for graph, _ in failed(folder)}


@pytest.mark.slow
def test_the_same_folder_is_written_again_when_the_option_changes(digits_artefact, tmp_path):
    shutil.copytree(digits_artefact, tmp_path / "a")
    assert not export_onnx("digits-vit", tmp_path / "a")[1]
    assert export_onnx("digits-vit", tmp_path / "a", uint8=True)[1]
    assert not export_onnx("digits-vit", tmp_path / "a", uint8=True)[1]
    assert export_onnx("digits-vit", tmp_path / "a")[1]
    assert not takes_bytes(Manifest.read(tmp_path / "a").graphs[0])
