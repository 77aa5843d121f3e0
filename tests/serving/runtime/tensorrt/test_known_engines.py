"""Whose engines may run: those of this user, or of whom the user knows."""

import shutil

import pytest

from attendant.errors import ArtefactError, MachineError
from serving.runtime.create_runners import engines_for
from serving.runtime.tensorrt.known_engines import are_known, require_known
from serving.triton.repository.layout import write_repository
from tests.conftest import DIGITS
from tests.end_to_end.asking import python_m
from tests.nvidia.engines import with_engines


@pytest.fixture
def of_others(digits_artefact, tmp_path, monkeypatch):
    """An artefact with engines that somebody else has built."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "theirs"))
    with_engines(digits_artefact, tmp_path / DIGITS)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / DIGITS


def test_engines_of_others_are_neither_run_nor_laid_out_until_they_are_trusted(of_others, tmp_path):
    for use in (
        lambda: engines_for(of_others, "auto"),
        lambda: require_known(of_others),
        lambda: write_repository([of_others], tmp_path / "repository"),
    ):
        with pytest.raises(ArtefactError, match=f"attendant engines trust {of_others}"):
            use()
    assert not (tmp_path / "repository").exists()
    assert engines_for(of_others, "onnxruntime") is None
    trusted = python_m("attendant", "engines", "trust", of_others)
    assert trusted.stdout == f"{DIGITS}: model.plan may run here, for this user\n", trusted.stderr
    write_repository([of_others], tmp_path / "repository")
    assert engines_for(of_others, "auto") is not None


def test_what_lies_in_a_repository_was_taken_there(of_others, tmp_path, monkeypatch):
    with monkeypatch.context() as theirs:
        theirs.setenv("XDG_CACHE_HOME", str(tmp_path / "theirs"))
        write_repository([of_others], tmp_path / "repository")
    version = tmp_path / "repository" / DIGITS / "1"
    assert engines_for(version, "auto") is not None
    with pytest.raises(ArtefactError, match="programs of whoever built them"):
        require_known(version)


def test_trust_is_in_what_was_seen(of_others, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "theirs"))
    assert are_known(of_others)
    described = of_others / "engine.json"
    described.write_text(described.read_text() + " ")
    assert not are_known(of_others)


def test_a_folder_that_others_may_write_to_knows_nothing(of_others, tmp_path):
    (tmp_path / "cache/attendant/engines").mkdir(parents=True)
    (tmp_path / "cache/attendant").chmod(0o777)
    with pytest.raises(MachineError, match="others can change"):
        are_known(of_others)


def test_an_artefact_without_engines_is_not_trusted(digits_artefact, tmp_path):
    shutil.copytree(digits_artefact, tmp_path / DIGITS)
    refused = python_m("attendant", "engines", "trust", tmp_path / DIGITS)
    assert refused.returncode == 2 and "found none" in refused.stderr
