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


def test_a_chosen_model_that_is_gone_later_takes_no_other_away(
    settings: ServerSettings, capsys: pytest.CaptureFixture[str]
):
    chosen = replace(settings, models=("double", "tokens"))
    (settings.repository / "double" / "-1").mkdir()
    assert find_models(chosen, before=chosen.models) == ("tokens",)
    shutil.rmtree(settings.repository / "double")
    assert find_models(chosen, before=chosen.models) == ("tokens",)
    first, second = capsys.readouterr().err.splitlines()
    assert first.endswith("is no version") and second == "not served: double: it has no config.pbtxt any more"
    with pytest.raises(ArtefactError, match="double"):
        find_models(chosen)
    with pytest.raises(ArtefactError, match="double"):
        find_models(replace(settings, models=("double",)), before=["double"])


def test_a_model_that_is_gone_later_is_named_though_nobody_chose_it(
    settings: ServerSettings, capsys: pytest.CaptureFixture[str]
):
    shutil.rmtree(settings.repository / "double")
    assert find_models(settings, before=("double", "tokens")) == ("tokens",)
    assert capsys.readouterr().err == "not served: double: it has no config.pbtxt any more\n"


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


def _labels_pipe(model: Path) -> None:
    os.mkfifo(model / "labels.txt")


def _labels_folder(model: Path) -> None:
    (model / "labels.txt").mkdir()


def _broken_link(model: Path) -> None:
    (model / "1" / "weights").symlink_to("nothing")


def _empty_version(model: Path) -> None:
    (model / "2").mkdir()


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (_labels_pipe, "'labels.txt' in it is no file"),
        (_labels_folder, "'labels.txt' in it is no file"),
        (_broken_link, "No such file"),
        (_empty_version, "its version 2 is empty"),
    ],
)
def test_what_triton_waits_for_or_ends_of_takes_its_own_model_away(
    settings: ServerSettings, spoil: Callable[[Path], None], told: str, capsys: pytest.CaptureFixture[str]
):
    spoil(settings.repository / "double")
    assert find_models(settings) == ("tokens",)
    assert told in capsys.readouterr().err


def test_an_empty_folder_of_another_scripts_number_is_no_version(settings: ServerSettings):
    (settings.repository / "double" / "٣").mkdir()
    assert find_models(settings) == ("double", "tokens")


def test_links_that_lead_nowhere_take_nothing_away(settings: ServerSettings, capsys: pytest.CaptureFixture[str]):
    for name, target in (("gone", "/nowhere"), ("loop", "loop"), ("long", "n" * 256)):
        (settings.repository / name).symlink_to(target)
    (settings.repository / "double" / "config.pbtxt").unlink()
    (settings.repository / "double" / "config.pbtxt").symlink_to("n" * 256)
    assert find_models(settings) == ("tokens",)
    told = capsys.readouterr().err
    assert [line.split(": ")[1] for line in told.splitlines()] == ["double", "long", "loop"]
    assert "File name too long" in told and "levels of symbolic links" in told


@pytest.mark.parametrize("name", ["*", "a b", "a$(touch b)", "a\nb", "a;b", "'"])
def test_a_name_that_is_more_to_a_shell_takes_its_own_model_away(
    settings: ServerSettings, name: str, capsys: pytest.CaptureFixture[str]
):
    shutil.copytree(settings.repository / "double", settings.repository / name)
    shutil.copytree(settings.repository / "double", settings.repository / "zwölf_2-b.c")
    assert find_models(settings) == ("double", "tokens", "zwölf_2-b.c")
    (line,) = capsys.readouterr().err.splitlines()
    assert "its name has characters that a shell reads otherwise" in line


def test_a_name_that_is_no_text_takes_its_own_model_away(settings: ServerSettings, capsys: pytest.CaptureFixture[str]):
    shutil.copytree(settings.repository / "double", settings.repository / os.fsdecode(b"\xff\xfe"))
    assert find_models(settings) == ("double", "tokens")
    assert capsys.readouterr().err == "not served: \\xff\\xfe: its name is not UTF-8\n"
