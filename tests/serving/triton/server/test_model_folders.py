from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from attendant.errors import ArtefactError
from serving.triton.server.model_folders import awaited_models, find_models
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


def _long(model: Path) -> None:
    """It takes too long to read, so that nobody knows that its file is not there."""
    (model / "1" / "model.py").rename(model / "1" / "other.py")
    with (model / "config.pbtxt").open("a") as file:
        file.write("#" * (1 << 20))


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


def _pipe_in_it(model: Path) -> None:
    os.mkfifo(model / "labels.txt")


def _broken_link(model: Path) -> None:
    (model / "1" / "weights").symlink_to("nothing")


def _empty_version(model: Path) -> None:
    (model / "2").mkdir()


def _no_python_file(model: Path) -> None:
    (model / "1" / "model.py").rename(model / "1" / "other.py")


def _python_folder(model: Path) -> None:
    _no_python_file(model)
    (model / "1" / "model.py").mkdir()


def _second_version_in_copy(model: Path) -> None:
    (model / "2").mkdir()
    (model / "2" / "weights").touch()


def _like_a_version(model: Path) -> None:
    (model / "20241127-before").mkdir()


def _no_version_like_one(model: Path) -> None:
    (model / "99999999999x").mkdir()


def _configure(model: Path, before: str, after: str) -> None:
    text = (model / "config.pbtxt").read_text()
    assert before in text
    (model / "config.pbtxt").write_text(text.replace(before, after, 1))


def _another_name(model: Path) -> None:
    _configure(model, 'backend: "python"', 'backend: "python" default_model_filename: "other.py"')


def _no_backend(model: Path) -> None:
    _configure(model, 'backend: "python"', 'default_model_filename: "model.py"')
    _no_python_file(model)


def _no_backend_in_copy(model: Path) -> None:
    _configure(model, 'backend: "python"', "")
    _second_version_in_copy(model)


def _no_backend_but_a_platform(model: Path) -> None:
    _configure(model, 'backend: "python"', 'platform: "x" default_model_filename: "model.py"')
    _no_python_file(model)


def _named_twice(model: Path) -> None:
    _configure(model, "instance_group", "version_policy { specific { versions: [ 1, 2, 2 ] } } instance_group")


def _file_for_a_folder(model: Path) -> None:
    _configure(model, 'backend: "python"', 'backend: "python" default_model_filename: "model.py/"')


def _name_for_a_shell(model: Path) -> None:
    _configure(model, 'backend: "python"', 'backend: "python" default_model_filename: "model (1).py"')
    (model / "1" / "model.py").rename(model / "1" / "model (1).py")


def _many_fields(model: Path) -> None:
    # A comment that seems to begin a text, and texts that end in what seems to be their own end's escape.
    fields = "version_policy { specific { versions: [ 1" + ", 1" * (1 << 19) + " ] } }"
    parameters = r"""parameters { key: "a\" value { string_value: '"' } }"""
    _configure(model, "instance_group", f'# "\n{fields}\n{parameters} instance_group')


def _label(model: Path, named: str) -> None:
    _configure(model, 'name: "y"', f'name: "y" label_filename: "{named}"')


def _label_pipe(model: Path) -> None:
    _label(model, "sub/deeper/l.txt")
    (model / "sub" / "deeper").mkdir(parents=True)
    os.mkfifo(model / "sub" / "deeper" / "l.txt")


def _label_folder(model: Path) -> None:
    _label(model, "labels.txt")
    (model / "labels.txt").mkdir()


def _label_device(model: Path) -> None:
    _label(model, "l")
    (model / "sub").mkdir()
    (model / "sub" / "l").symlink_to("/dev/zero")
    _configure(model, '"l"', '"sub/l"')


def _label_with_nul(model: Path) -> None:
    _label(model, r"sub/l\000")
    (model / "sub").mkdir()
    os.mkfifo(model / "sub" / "l")


def _warm_up_pipe(model: Path) -> None:
    value = 'inputs { key: "x" value { data_type: TYPE_FP32 dims: [ 2 ] input_data_file: "f" } }'
    _configure(model, "instance_group", f'model_warmup {{ name: "w" batch_size: 1 {value} }} instance_group')
    (model / "warmup").mkdir()
    os.mkfifo(model / "warmup" / "f")


def _state_folder(model: Path) -> None:
    state = 'state { initial_state { name: "s" data_file: "f" } }'
    _configure(model, "instance_group", f"sequence_batching {{ {state} }} instance_group")
    (model / "initial_state" / "f").mkdir(parents=True)


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (_pipe_in_it, "'labels.txt' in it is no file"),
        (_broken_link, "No such file"),
        (_empty_version, "its version 2 is empty"),
        (_no_python_file, "'1/model.py' is no file in it"),
        (_python_folder, "'1/model.py' is no file in it"),
        (_second_version_in_copy, "'2/model.py' is no file in it"),
        (_like_a_version, "'20241127/model.py' is no file in it"),
        (_no_version_like_one, "the folder '99999999999x' in it is no version"),
        (_another_name, "'1/other.py' is no file in it"),
        (_no_backend, "'1/model.py' is no file in it"),
        (_no_backend_but_a_platform, "'1/model.py' is no file in it"),
        (_named_twice, "'2/model.py' is no file in it"),
        (_file_for_a_folder, "'1/model.py/' is no file in it"),
        (_name_for_a_shell, "a shell reads the name '1/model (1).py' otherwise"),
        (_many_fields, "more than 1048576 bytes beside its texts"),
        (_no_backend_in_copy, "'2/model.py' is no file in it"),
        (_label_pipe, "'sub/deeper/l.txt', which its config.pbtxt names, is no file"),
        (_label_folder, "'labels.txt', which its config.pbtxt names, is no file"),
        (_label_device, "'sub/l', which its config.pbtxt names, is no file"),
        (_label_with_nul, "null byte"),
        (_warm_up_pipe, "'warmup/f', which its config.pbtxt names, is no file"),
        (_state_folder, "'initial_state/f', which its config.pbtxt names, is no file"),
    ],
)
def test_what_triton_waits_for_or_ends_of_takes_its_own_model_away(
    settings: ServerSettings, spoil: Callable[[Path], None], told: str, capsys: pytest.CaptureFixture[str]
):
    right = settings.repository.with_name("right")
    shutil.copytree(settings.repository / "double", right)
    spoil(settings.repository / "double")
    assert find_models(settings) == ("tokens",)
    assert told in capsys.readouterr().err
    assert awaited_models(settings) == {"double"}
    shutil.rmtree(settings.repository / "double")
    right.rename(settings.repository / "double")
    assert find_models(settings) == ("double", "tokens")
    assert awaited_models(settings) == set()


def _former_version(model: Path) -> None:
    (model / "1").rename(model / "2")
    (model / "1").mkdir()
    (model / "1" / "weights").touch()


def _version_that_is_not_chosen(model: Path) -> None:
    _second_version_in_copy(model)
    _configure(model, "instance_group", "version_policy { specific { versions: [ 1 ] } } instance_group")


def _backend_of_others(model: Path) -> None:
    _no_python_file(model)
    _configure(model, 'backend: "python"', 'backend: "onnxruntime"')


def _no_label(model: Path) -> None:
    _label(model, "/dev/zero")  # of the model's folder


def _long_text(model: Path) -> None:
    text = r"\"" * (1 << 20)
    _configure(model, "instance_group", f'parameters {{ key: "a" value {{ string_value: "{text}" }} }} instance_group')


def _unread(model: Path) -> None:
    _no_python_file(model)
    _configure(model, "instance_group", "of_the_future")


def _folder_that_is_not_named(model: Path) -> None:
    (model / "labels.txt").mkdir()


@pytest.mark.parametrize(
    "change",
    [
        _former_version,
        _version_that_is_not_chosen,
        _backend_of_others,
        _no_label,
        _long_text,
        _unread,
        _folder_that_is_not_named,
        _long,
    ],
)
def test_what_triton_serves_or_refuses_itself_is_handed_to_it(settings: ServerSettings, change: Callable[[Path], None]):
    change(settings.repository / "double")
    assert find_models(settings) == ("double", "tokens")


def test_engines_beside_a_configuration_that_is_not_read_take_their_own_model_away(
    settings: ServerSettings, capsys: pytest.CaptureFixture[str]
):
    _long(settings.repository / "double")
    (settings.repository / "double" / "1" / "engine.json").write_text("{}")
    assert find_models(settings) == ("tokens",)
    assert "a config.pbtxt of at most 1.05 MB beside engines" in capsys.readouterr().err


def test_none_is_awaited_that_was_not_chosen_or_has_no_name_for_triton(settings: ServerSettings):
    _no_python_file(settings.repository / "double")
    shutil.copytree(settings.repository / "double", settings.repository / "a b")
    assert awaited_models(settings) == {"double"}
    assert awaited_models(replace(settings, models=("tokens",))) == set()


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
