from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from attendant.errors import ArtefactError
from serving.triton.server.model_folders import find_models
from serving.triton.server.settings import ServerSettings


def test_a_model_that_the_repository_lacks_is_named_beside_those_it_has(settings: ServerSettings):
    with pytest.raises(ArtefactError, match=r"\['absent'\].*\['double', 'tokens'\]"):
        find_models(replace(settings, models=("double", "absent")))


def test_an_empty_repository_is_refused(tmp_path: Path):
    with pytest.raises(ArtefactError, match="one model at least"):
        find_models(ServerSettings(repository=tmp_path))


def test_models_that_are_there_are_accepted(settings: ServerSettings):
    assert find_models(replace(settings, models=("tokens",))) == ("tokens",)
    assert find_models(settings) == ("double", "tokens")


def _pipe(model: Path) -> None:
    (model / "config.pbtxt").unlink()
    os.mkfifo(model / "config.pbtxt")


def _folder(model: Path) -> None:
    (model / "config.pbtxt").unlink()
    (model / "config.pbtxt").mkdir()


def _sparse(model: Path) -> None:
    os.truncate(model / "config.pbtxt", 10**11)


@pytest.mark.parametrize("spoil", [_pipe, _folder, _sparse])
def test_a_configuration_that_is_no_file_takes_its_own_model_away(
    settings: ServerSettings, spoil: Callable[[Path], None], capsys: pytest.CaptureFixture[str]
):
    spoil(settings.repository / "double")
    assert find_models(settings) == ("tokens",)
    assert "not served: double: its config.pbtxt is no file" in capsys.readouterr().err
    with pytest.raises(ArtefactError, match=r"double: its config\.pbtxt is no file"):
        find_models(replace(settings, models=("double",)))


@pytest.mark.parametrize("version", ["-1", "99999999999999999999", "9" * 200])
def test_a_number_that_is_no_version_takes_its_own_model_away(
    settings: ServerSettings, version: str, capsys: pytest.CaptureFixture[str]
):
    (settings.repository / "double" / version).mkdir()
    assert find_models(settings) == ("tokens",)
    assert "is no version" in capsys.readouterr().err


def test_a_name_that_is_no_text_takes_its_own_model_away(settings: ServerSettings, capsys: pytest.CaptureFixture[str]):
    shutil.copytree(settings.repository / "double", settings.repository / os.fsdecode(b"\xff\xfe"))
    assert find_models(settings) == ("double", "tokens")
    assert capsys.readouterr().err == "not served: \\xff\\xfe: its name is not UTF-8\n"
