"""What `attendant serve PATH…` takes, and what it refuses before it works."""

import os
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from torch import nn

from attendant.errors import ArtefactError, AttendantError, OutputError
from attendant.folders import one_at_a_time
from attendant.manifest import Manifest
from commands.model_paths import prepare_here, prepare_models
from tests.end_to_end.imported_models import KINDS


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("absent/model", "a model at absent/model; found nothing there"),
        ("absent.py", "a model at absent.py; found nothing there"),
        ("empty", r"a config.json .* or a manifest.json .* in empty; found neither"),
        ("repository", "serve it with --repository repository"),
        ("pipe.pt2", "a file at pipe.pt2; found a pipe"),
        ("vit-tny", "did you mean 'vit-tiny'"),
    ],
)
def test_what_is_no_model_is_refused_before_any_work(tmp_path, monkeypatch, path, message):
    monkeypatch.chdir(tmp_path)
    os.mkfifo(tmp_path / "pipe.pt2")
    (tmp_path / "empty").mkdir()
    (tmp_path / "repository" / "mine").mkdir(parents=True)
    (tmp_path / "repository" / "mine" / "config.pbtxt").touch()
    with pytest.raises(AttendantError, match=message):
        prepare_here(tmp_path / "cache", [path])
    assert not list(tmp_path.glob("cache/**/*.onnx"))


def test_an_artefact_is_taken_as_it_is(tmp_path, tiny_classifier):
    prepared = prepare_here(Path("/dev/null"), [str(tiny_classifier)], tmp_path / "repository")  # it needs no cache
    assert (prepared.repository, prepared.models) == (tmp_path / "repository", ("vit-tiny",))
    assert (tmp_path / "repository" / "vit-tiny" / "config.pbtxt").is_file()


def test_a_program_of_others_is_exported_and_verified_once(tmp_path, capfd):
    shapes = ({0: torch.export.Dim("batch")},)
    program = torch.export.export(nn.Linear(2, 3), (torch.ones(2, 2),), dynamic_shapes=shapes)
    torch.export.save(program, tmp_path / "linear.pt2")
    for shown in ("linear: verified\n", "linear: verified before\n", "linear: verified before\n"):
        prepared = prepare_here(tmp_path / "cache", [str(tmp_path / "linear.pt2")])
        assert prepared.models == ("linear",) and shown in capfd.readouterr().err
        (prepared.repository / ".DS_Store").touch()
    manifest = Manifest.read(prepared.repository / "linear" / "1")
    assert manifest.graph("model").inputs[0].axes == ("batch", 2) and manifest.example["answer"]


@pytest.mark.patient
def test_another_choice_leaves_alone_what_a_server_of_the_first_has(tmp_path):
    prepared = [prepare_here(tmp_path / "cache", ["vit-tiny"], explain=explain) for explain in (True, False)]
    first, other = (one.repository for one in prepared)
    assert first != other
    graphs = [{one.name for one in Manifest.read(place / "vit-tiny" / "1").graphs} for place in (first, other)]
    assert graphs == [{"model", "explained"}, {"model"}]


@pytest.mark.parametrize("place", ["/proc/cache", "/dev/null/cache", "file"])
def test_a_cache_that_cannot_be_written_is_refused_before_any_work(tmp_path, monkeypatch, place):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / place))
    (tmp_path / "mine.py").write_text("raise SystemExit('it ran')")
    with pytest.raises(OutputError, match=r"a cache to write at .*name another folder by XDG_CACHE_HOME"):
        prepare_models([str(tmp_path / "mine.py")])


def test_a_user_without_a_home_is_told_to_name_a_cache(tmp_path, monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("HOME")
    monkeypatch.setattr("pwd.getpwuid", {}.__getitem__)
    with pytest.raises(OutputError, match=r"a user's home.*XDG_CACHE_HOME"):
        prepare_models([str(tmp_path / "mine.py")])


def test_a_disk_that_fills_up_is_told_with_a_remedy_that_serve_has(tmp_path, monkeypatch):
    def fill(*_):
        raise OutputError("a place to write", "no space left", "choose another --out")

    monkeypatch.setattr("commands.model_paths.export_onnx", fill)
    with pytest.raises(OutputError, match=r"no space left; .*XDG_CACHE_HOME"):
        prepare_here(tmp_path / "cache", ["vit-tiny"])


def test_of_two_that_prepare_one_path_the_second_waits(tmp_path, capfd):
    path = tmp_path / "mine.py"
    path.write_text("def model(): return 3")
    with pytest.raises(ArtefactError, match="found int"):
        prepare_here(tmp_path / "cache", [str(path)])
    (folder,) = (tmp_path / "cache" / "served").iterdir()
    former = folder / "traced" / "model.pt2"
    former.write_bytes(b"which another exports")
    with ThreadPoolExecutor() as pool:
        with one_at_a_time(folder):
            second = pool.submit(prepare_here, tmp_path / "cache", [str(path)])
            while "waiting until it has ended" not in capfd.readouterr().err:
                assert not second.done()
                time.sleep(0.01)
            assert former.exists()
        with pytest.raises(ArtefactError, match="found int"):
            second.result()
    assert not former.exists()


@pytest.mark.slow
def test_a_hugging_face_folder_is_imported_once(tmp_path, capfd):
    folder = KINDS["gpt2"].save(tmp_path / "theirs")
    for shown in ("imported GPT2LMHeadModel\n", "imported before\n"):
        prepared = prepare_here(tmp_path / "cache", [str(folder)])
        assert prepared.models == ("theirs",) and shown in capfd.readouterr().err
    (folder / "generation_config.json").write_text("{}")
    prepare_here(tmp_path / "cache", [str(folder)])
    assert "imported GPT2LMHeadModel\n" in capfd.readouterr().err


@pytest.mark.slow
def test_what_is_damaged_in_the_cache_is_made_again(tmp_path, capfd):
    folder = KINDS["gpt2"].save(tmp_path / "theirs")
    prepare_here(tmp_path / "cache", [str(folder)])
    (kept,) = (tmp_path / "cache" / "served").iterdir()
    for name, content in (("config.json", "{"), ("config.json", "{}"), ("config.json", "[]"), ("config.json", None)):
        (kept / "checkpoint" / name).unlink()
        if content is not None:
            (kept / "checkpoint" / name).write_text(content)
        prepare_here(tmp_path / "cache", [str(folder)])
    (kept / "artefact" / "manifest.json").write_text("{")
    prepare_here(tmp_path / "cache", [str(folder)])
    for name in ("checkpoint", "artefact", "repository"):
        shutil.rmtree(kept / name)
        (kept / name).touch()
    assert prepare_here(tmp_path / "cache", [str(folder)]).models == ("theirs",)
    assert (kept / "repository" / "theirs" / "1" / "manifest.json").is_file()
