import json
import os
import signal
import subprocess
import sys
import time

import pytest

from export.stage import export_onnx
from models.checkpoints.resolve import checkpoint_named
from models.checkpoints.store import save_checkpoint
from models.errors import ArtefactError, OutputError, UnknownNameError
from models.manifest import Manifest


@pytest.fixture
def checkpoint_folder(tmp_path):
    folder = tmp_path / "checkpoint"
    save_checkpoint(checkpoint_named("vit-tiny"), folder)
    return folder


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def group_lives(group):
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def test_an_artefact_holds_its_graphs_and_a_manifest_with_their_hashes(tiny_translator):
    manifest = Manifest.read(tiny_translator)
    assert {path.name for path in tiny_translator.iterdir()} >= {"encoder.onnx", "decoder.onnx", "manifest.json"}
    assert manifest.files.keys() == {"encoder.onnx", "decoder.onnx"}
    manifest.verify(tiny_translator)


def test_an_unchanged_export_is_not_done_again(tiny_classifier):
    before = contents(tiny_classifier)
    manifest, done = export_onnx("vit-tiny", tiny_classifier)
    assert not done
    assert manifest == Manifest.read(tiny_classifier)
    assert contents(tiny_classifier) == before


def test_a_damaged_graph_is_exported_again(tmp_path, tiny_classifier):
    out = tmp_path / "artefact"
    out.mkdir()
    for name, value in contents(tiny_classifier).items():
        (out / name).write_bytes(value)
    (out / "model.onnx").write_bytes(b"damaged")
    _, done = export_onnx("vit-tiny", out)
    assert done
    Manifest.read(out).verify(out)


def test_a_folder_with_other_files_is_refused_and_kept(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(OutputError, match="choose another --out"):
        export_onnx("vit-tiny", tmp_path)
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


def test_a_place_that_cannot_be_written_is_refused_by_name():
    with pytest.raises(OutputError, match="/proc/artefact"):
        export_onnx("vit-tiny", __import__("pathlib").Path("/proc/artefact"))


def test_an_unknown_model_is_refused_with_the_known_ones(tmp_path):
    with pytest.raises(UnknownNameError, match="vit-tiny"):
        export_onnx("vit-enormous", tmp_path / "out")


def test_truncated_weights_are_refused_and_the_old_artefact_stays(checkpoint_folder, tmp_path, tiny_classifier):
    out = tmp_path / "artefact"
    out.mkdir()
    for name, value in contents(tiny_classifier).items():
        (out / name).write_bytes(value)
    weights = checkpoint_folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(ArtefactError, match=r"model\.safetensors"):
        export_onnx(str(checkpoint_folder), out)
    assert contents(out) == contents(tiny_classifier)


def test_an_export_killed_in_the_middle_leaves_the_old_artefact(tmp_path, tiny_classifier):
    out = tmp_path / "artefact"
    out.mkdir()
    for name, value in contents(tiny_classifier).items():
        (out / name).write_bytes(value)
    before = contents(out)
    command = [sys.executable, "-m", "export", "onnx", "transformer-tiny", "--out", str(out)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True)
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob(".artefact.staging-*")) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    while group_lives(process.pid) and time.monotonic() < deadline:
        time.sleep(0.05)  # its workers notice, and the semaphores that they shared are removed
    assert contents(out) == before


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (["onnx", "vit-enormous", "--out", "x"], 2, "expected a checkpoint folder"),
        (["onnx", "vit-tiny", "--out", "/proc/x"], 2, "a place to write at /proc/x"),
        (["check", "/nowhere"], 2, "a readable manifest at /nowhere/manifest.json"),
    ],
)
def test_a_users_mistake_is_one_line_and_status_2(words, status, says):
    refused = subprocess.run([sys.executable, "-m", "export", *words], capture_output=True, text=True, timeout=120)
    assert refused.returncode == status
    assert refused.stderr.count("\n") == 1, refused.stderr
    assert says in refused.stderr


def test_a_preset_records_where_it_came_from(tiny_classifier):
    value = json.loads((tiny_classifier / "manifest.json").read_text())
    assert value["source"] == "vit-tiny"
    assert value["versions"].keys() == {"torch", "onnx", "onnxscript"}
