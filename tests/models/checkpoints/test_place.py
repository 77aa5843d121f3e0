import os
import subprocess
import sys

import pytest

from attendant.errors import ArtefactError, ConfigError
from models.checkpoints.place import PRETRAINED, gguf_in, is_hugging_face, place_of, shipped_names


def test_a_folder_and_a_python_file_are_found_by_their_paths(tmp_path, monkeypatch):
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "mine.py").write_text("")
    assert place_of(str(tmp_path / "checkpoint")) == tmp_path / "checkpoint"
    assert place_of(str(tmp_path / "mine.py")) == tmp_path / "mine.py"
    monkeypatch.chdir(tmp_path)
    assert place_of("checkpoint").samefile(tmp_path / "checkpoint")


def test_a_shipped_checkpoint_is_found_by_its_name_unless_a_folder_has_it(tmp_path, monkeypatch):
    name = shipped_names()[0]
    assert place_of(name) == PRETRAINED / name
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).mkdir()
    assert place_of(name).samefile(tmp_path / name)


@pytest.mark.parametrize("name", ["vit-tiny", "no/such/folder", "missing.py", "x" * 5000, "nul\x00byte"])
def test_any_other_name_can_only_be_a_presets(name):
    assert place_of(name) is None


def test_a_file_that_is_no_python_is_no_place(tmp_path):
    (tmp_path / "model.onnx").write_text("")
    assert place_of(str(tmp_path / "model.onnx")) is None


@pytest.mark.parametrize("suffix", [".py", ".pt2", ".gguf"])
def test_a_pipe_or_a_device_is_refused(tmp_path, suffix):
    os.mkfifo(tmp_path / f"pipe{suffix}")
    (tmp_path / f"device{suffix}").symlink_to(os.devnull)
    for name in ("pipe", "device"):
        with pytest.raises(ArtefactError, match=f"a file at .*{name}.*found a pipe"):
            place_of(str(tmp_path / f"{name}{suffix}"))


def test_a_gguf_file_is_found_by_its_path_or_in_its_folder(tmp_path):
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF")
    assert (place_of(str(path)), gguf_in(path), gguf_in(tmp_path)) == (path, path, path)
    assert is_hugging_face(path) and is_hugging_face(tmp_path)
    (tmp_path / "other.gguf").write_bytes(b"GGUF")
    with pytest.raises(ConfigError, match=r"one GGUF file in .*name one of them"):
        gguf_in(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"")
    assert gguf_in(tmp_path) is None


def test_it_is_known_without_torch():
    program = (
        "import sys; from models.checkpoints.place import place_of; place_of('vit-tiny'); print('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "False\n"
