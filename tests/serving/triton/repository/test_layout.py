import dataclasses
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from attendant.errors import ArtefactError, OutputError
from attendant.folders import one_at_a_time
from attendant.manifest import FORMAT, Manifest, sha256_of
from attendant.tokenizer import MARIAN_FILES
from clients.served_model import ServedModel
from serving.triton.repository import layout
from serving.triton.repository.layout import write_repository
from serving.triton.repository.pbtxt import config_from_pbtxt
from tests.conftest import DATES, LANGUAGE_MODEL, TEXT_ENCODER

ROOT = Path(__file__).parents[4]
COMMITTED = ("config.pbtxt", "labels.txt", "1/model.py")


def files_in(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def with_files(folder, *more, without=()):
    """The manifest lists these files as well, and does not list those."""
    manifest = Manifest.read(folder)
    files = {name: value for name, value in manifest.files.items() if name not in without}
    files |= {name: sha256_of(folder / name) for name in more}
    dataclasses.replace(manifest, files=files).write(folder)


def test_the_committed_repository_is_what_the_checkpoints_give_today(repository):
    listed = subprocess.run(
        ["git", "ls-files", "model_repository"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    committed = [Path(line).relative_to("model_repository") for line in listed.stdout.splitlines()]
    fresh = {path for path in files_in(repository) if path.split("/", 1)[1] in COMMITTED}
    assert {str(path) for path in committed} == fresh
    here = ROOT / "model_repository"
    different = [path for path in committed if _settings_in(repository / path) != _settings_in(here / path)]
    assert different == [], "run `make quickstart` and commit what changed in model_repository/"


def _settings_in(path):
    # Another processor may round a table of a graph otherwise, and its file has another hash then.
    return re.sub('"sha256:[0-9a-f]{64}"', '"sha256:…"', path.read_text(encoding="utf-8"))


def test_model_py_is_two_lines_that_import_its_body(repository):
    text = (repository / "digits-vit/1/model.py").read_text()
    assert len(text.splitlines()) == 2
    assert "from serving.triton.backends.classify import TritonPythonModel" in text


def test_every_file_of_the_artefact_is_there_and_verified(repository):
    for model in repository.iterdir():
        Manifest.read(model / "1").verify(model / "1")


def test_models_that_are_not_named_stay(digits_artefact, dates_artefact, tmp_path):
    out = tmp_path / "repository"
    write_repository([digits_artefact], out)
    before = files_in(out)
    write_repository([dates_artefact], out)
    after = files_in(out)
    assert {path.split("/", 1)[0] for path in after} == {"digits-vit", "dates-transformer"}
    assert before.items() <= after.items()


def test_a_model_that_is_a_link_stays_one(digits_artefact, dates_artefact, tmp_path):
    write_repository([digits_artefact], tmp_path / "elsewhere")
    out = tmp_path / "repository"
    out.mkdir()
    (out / "digits-vit").symlink_to("../elsewhere/digits-vit")
    write_repository([dates_artefact], out)
    assert (out / "digits-vit").readlink() == Path("../elsewhere/digits-vit")
    assert (out / "digits-vit" / "config.pbtxt").is_file() and (out / "dates-transformer" / "config.pbtxt").is_file()


def test_a_failed_write_leaves_the_old_repository(digits_artefact, dates_artefact, tmp_path, monkeypatch):
    out = tmp_path / "repository"
    write_repository([digits_artefact], out)
    before = files_in(out)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(layout.shutil, "copyfile", full)
    with pytest.raises(OutputError, match="No space left on device"):
        write_repository([dates_artefact], out)
    assert files_in(out) == before
    assert [path.name for path in tmp_path.iterdir()] == ["repository"], "and nothing beside it"


def test_a_write_interrupted_by_ctrl_c_leaves_the_old_repository(
    digits_artefact, dates_artefact, tmp_path, monkeypatch
):
    out = tmp_path / "repository"
    write_repository([digits_artefact], out)
    before = files_in(out)

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(layout.shutil, "copyfile", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_repository([digits_artefact, dates_artefact], out)
    assert files_in(out) == before


def test_two_that_write_one_repository_at_once_both_find_their_models_in_it(digits_artefact, language_model, tmp_path):
    out = tmp_path / "model_repository"
    command = [sys.executable, "-m", "attendant", "repository", str(language_model), "--out", str(out)]
    with one_at_a_time(out):
        other = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        assert other.stderr.readline() == f"another process is writing {out}: waiting until it has ended\n"
        write_repository([digits_artefact], tmp_path / "made")
        (tmp_path / "made").rename(out)
    other.communicate(timeout=240)
    assert other.returncode == 0
    assert sorted(path.name for path in out.iterdir()) == ["digits-vit", LANGUAGE_MODEL]


def test_a_damaged_artefact_is_refused_before_anything_is_written(digits_artefact, tmp_path):
    damaged = shutil.copytree(digits_artefact, tmp_path / "damaged")
    os.truncate(damaged / "model.onnx", 100)
    with pytest.raises(ArtefactError, match=r"model\.onnx with SHA-256"):
        write_repository([damaged], tmp_path / "repository")
    assert not (tmp_path / "repository").exists()


@pytest.mark.parametrize("artefact", ["tiny_translator", "text_encoder"])
def test_a_text_model_without_a_tokenizer_is_refused(artefact, tmp_path, request):
    folder = shutil.copytree(request.getfixturevalue(artefact), tmp_path / "artefact")
    with_files(folder, without=("tokenizer.json",))
    with pytest.raises(ArtefactError, match=r"tokenizer\.json, or source\.spm and target\.spm and vocab\.json"):
        write_repository([folder], tmp_path / "repository")
    assert not (tmp_path / "repository").exists()


def test_a_language_model_without_a_tokenizer_is_for_token_ids_alone_and_its_configuration_says_so(
    language_model, tmp_path
):
    folder = shutil.copytree(language_model, tmp_path / "artefact")
    with_files(folder, without=("tokenizer.json",))
    write_repository([folder], tmp_path / "repository")
    served = read_served(tmp_path / "repository", LANGUAGE_MODEL)
    assert served.token_ids_only and "chat_template" not in served.parameters  # which it cannot write tokens with
    write_repository([language_model], tmp_path / "repository")
    assert not read_served(tmp_path / "repository", LANGUAGE_MODEL).token_ids_only


def read_served(repository, name):
    return ServedModel.from_config(name, config_from_pbtxt((repository / name / "config.pbtxt").read_text()))


def test_marians_three_files_are_a_tokenizer_and_two_of_them_are_none(tiny_translator, tmp_path):
    folder = shutil.copytree(tiny_translator, tmp_path / "artefact")
    for name in MARIAN_FILES:
        (folder / name).write_bytes(b"pieces")
    with_files(folder, *MARIAN_FILES[1:])
    with pytest.raises(ArtefactError, match="a tokenizer in the artefact"):
        write_repository([folder], tmp_path / "repository")
    with_files(folder, *MARIAN_FILES)
    (manifest,) = write_repository([folder], tmp_path / "repository")
    assert all((tmp_path / "repository" / manifest.name / "1" / name).is_file() for name in MARIAN_FILES)


def test_each_task_has_its_body(repository_of_every_task):
    for model, task in {LANGUAGE_MODEL: "generate", TEXT_ENCODER: "embed", DATES: "translate"}.items():
        text = (repository_of_every_task / model / "1/model.py").read_text()
        assert f"from serving.triton.backends.{task} import TritonPythonModel" in text


def test_two_artefacts_of_one_name_are_refused(digits_artefact, tmp_path):
    with pytest.raises(ArtefactError, match="different names"):
        write_repository([digits_artefact, digits_artefact], tmp_path / "repository")


def test_a_folder_with_something_else_in_it_is_refused_and_kept(digits_artefact, tmp_path):
    (tmp_path / "holiday.jpg").write_bytes(b"beach")
    with pytest.raises(OutputError, match=r"holiday\.jpg"):
        write_repository([digits_artefact], tmp_path)
    assert (tmp_path / "holiday.jpg").read_bytes() == b"beach"


def test_a_place_that_cannot_be_written_is_refused(digits_artefact):
    with pytest.raises(OutputError, match="a place to write at /proc/repository"):
        write_repository([digits_artefact], Path("/proc/repository"))


def test_a_manifest_that_names_another_format_is_refused(digits_artefact, tmp_path):
    folder = shutil.copytree(digits_artefact, tmp_path / "artefact")
    manifest = Manifest.read(folder)
    dataclasses.replace(manifest, files={}).write(folder)
    text = (folder / "manifest.json").read_text().replace(f'"format": {FORMAT}', '"format": 99')
    (folder / "manifest.json").write_text(text)
    with pytest.raises(ArtefactError, match=f"is of format 99; this version reads format {FORMAT}"):
        write_repository([folder], tmp_path / "repository")
