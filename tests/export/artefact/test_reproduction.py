import os
import subprocess
import sys
from pathlib import Path

import pytest

from attendant.manifest import REPRODUCTION_NAME, Manifest
from export.artefact import reproduction
from export.artefact.reproduction import write_reproduction

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]


def script_for(folder, options, source="vit-tiny"):
    manifest = Manifest(
        name="m",
        task="classify",
        family="vit",
        config={},
        graphs=(),
        files={"model.onnx": "0" * 64},
        versions={"torch": "2.13.0"},
        source=source,
        fingerprint="f" * 64,
    )
    write_reproduction(folder, manifest, options)
    return (folder / REPRODUCTION_NAME).read_text()


def run(script, *words):
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # noqa: TID251
    environment = {**os.environ, "PATH": path}  # noqa: TID251
    return subprocess.run([script, *words], cwd=ROOT, capture_output=True, text=True, timeout=120, env=environment)


def test_an_artefact_comes_with_a_script_that_makes_it_again(tiny_classifier, tmp_path):
    again = tmp_path / "again"
    made = run(tiny_classifier / REPRODUCTION_NAME, again)
    assert made.returncode == 0, made.stderr
    assert "model.onnx: OK" in made.stdout
    assert Manifest.read(again) == Manifest.read(tiny_classifier)
    assert (again / REPRODUCTION_NAME).read_bytes() == (tiny_classifier / REPRODUCTION_NAME).read_bytes()


@pytest.mark.planted
def test_the_script_fails_where_a_file_comes_out_differently(tiny_classifier, tmp_path):
    script = tmp_path / "changed.sh"
    text = (tiny_classifier / REPRODUCTION_NAME).read_text()
    script.write_text(text.replace(Manifest.read(tiny_classifier).files["model.onnx"], "0" * 64))
    script.chmod(0o755)
    made = run(script, tiny_classifier)
    assert made.returncode == 1
    assert "up to date" in made.stdout
    assert "model.onnx: FAILED" in made.stdout


def test_the_script_says_what_made_the_artefact_and_stops_at_the_first_error(tmp_path):
    text = script_for(tmp_path, {})
    assert "torch 2.13.0; fingerprint ffffffffffffffff." in text
    assert "set -euo pipefail\n" in text


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"explain": False, "uint8": False, "target": None}, "vit-tiny"),
        ({"explain": True, "uint8": True}, "vit-tiny --explain --uint8"),
        ({"explain": False, "precision": "fp16", "block": 32}, "vit-tiny --precision fp16 --block 32"),
    ],
)
def test_options_are_the_flags_of_the_command(options, words, tmp_path):
    assert f'attendant export onnx {words} --out "$out"\n' in script_for(tmp_path, options)


def test_a_folder_is_named_so_that_the_command_finds_it_from_the_root(tmp_path, monkeypatch):
    (tmp_path / "my model").mkdir()
    monkeypatch.chdir(tmp_path)
    assert f"export onnx '{tmp_path}/my model' --out" in script_for(tmp_path, {}, "my model")
    monkeypatch.setattr(reproduction, "ROOT", tmp_path)
    assert "export onnx 'my model' --out" in script_for(tmp_path, {}, "my model")
