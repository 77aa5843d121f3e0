"""Graphs that take the bytes of images go the same road: parity on every rung, and a damage that is seen."""

import shutil

import pytest

from attendant.manifest import Manifest
from attendant.tensor_names import EXPLAINED
from export.artefact.stage import export_onnx
from export.parity.ladder import climb
from export.parity.parity import rungs_of
from export.targets.check import hold_to_target
from models.tasks.from_bytes import takes_bytes
from tests.export.parity.test_ladder import damage, failed, nudged


@pytest.mark.planted
@pytest.mark.parametrize(
    ("artefact", "explain"),
    [("digits_in_bytes", True), pytest.param("captioner_in_bytes", False, marks=pytest.mark.slow)],
)
def test_every_rung_agrees_on_bytes_and_a_changed_weight_fails(artefact, explain, tmp_path, request):
    folder = shutil.copytree(request.getfixturevalue(artefact), tmp_path / "artefact")
    manifest = Manifest.read(folder)
    assert takes_bytes(manifest.graphs[0])
    assert (EXPLAINED in [graph.name for graph in manifest.graphs]) is explain
    assert [verdict for verdict in hold_to_target(folder, "tensorrt")[1] if verdict.breaches] == []
    assert all(rung.passed for rung in rungs_of(climb(folder)))
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
