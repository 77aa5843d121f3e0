"""Every command of the pages on TensorRT and on kernels exists, with its flags, and every test that they rest on.

Those of the guide's blocks are run, in order: where TensorRT is missing, as here, building says so.
"""

import re
import shlex
from pathlib import Path

import pytest

from tests.run_here import run_here
from tests.test_command_lines import FROZEN

ROOT = Path(__file__).parent.parent
PAGES = {path.name: path.read_text() for path in (ROOT / "docs/guides/tensorrt.md", ROOT / "docs/reference/kernels.md")}
BLOCKS = re.findall(r"^```sh\n(.*?)^```", PAGES["tensorrt.md"], re.MULTILINE | re.DOTALL)
BUILDS = "attendant export tensorrt"
every_page = pytest.mark.parametrize("page", PAGES)
COMMAND = re.compile(r"`attendant ((?:models|export|engines|load|capacity|bench) \w+|[a-z]+)([^`|\n]*)")


@every_page
def test_every_command_is_a_verb_with_flags_that_it_has(page):
    said = COMMAND.findall(PAGES[page])
    unknown = [
        (verb, flag)
        for verb, rest in said
        for flag in re.findall(r"(?<!\S)--[a-z-]+", rest)
        if flag not in FROZEN[verb]
    ]
    assert unknown == []
    assert {verb for verb, _ in said} <= FROZEN.keys()


def test_the_flags_that_the_guide_explains_are_those_of_the_verb():
    explained = set(re.findall(r"^\| `(--[a-z-]+)`", PAGES["tensorrt.md"], re.MULTILINE))
    assert explained <= FROZEN["export tensorrt"]
    assert FROZEN["export tensorrt"] - explained <= {"--out", "--tf32"} and "--tf32" in PAGES["tensorrt.md"]


@pytest.mark.slow
def test_the_guides_commands_run_but_for_building_which_names_what_is_missing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    commands = [line for block in BLOCKS for line in block.splitlines()]
    assert len(commands) >= 5 and all(command.startswith("attendant ") for command in commands)
    ended = {command: run_here("attendant", *shlex.split(command)[1:]) for command in commands}
    failed = {command: done.stderr for command, done in ended.items() if done.returncode}
    assert [command.startswith(BUILDS) for command in failed] == [True], failed
    (message,) = failed.values()
    assert re.search(r"expected .*[Tt]ensor[Rr][Tt].*; found", message)
    assert "constraints hold" in next(done.stdout for command, done in ended.items() if "--target" in command)
    assert (tmp_path / "artefacts/digits-vit/model.tensorrt.onnx").is_file()
    assert (tmp_path / "model_repository/digits-vit/config.pbtxt").is_file()


@every_page
def test_every_make_target_script_and_module_is_there(page):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"`make ([a-z-]+)`", PAGES[page])) <= targets
    modules = re.findall(r"python -m ((?:benchmarks|export|models)\.[\w.]+\w)", PAGES[page])
    assert [name for name in modules if not (ROOT / f"{name.replace('.', '/')}.py").is_file()] == []


@every_page
def test_every_file_that_a_claim_rests_on_is_there(page):
    named = set(re.findall(r"`((?:[\w/]+/)?test_\w+\.py)(?:::\w+)?`", PAGES[page]))
    tests = {str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py")}
    assert named and [name for name in named if not any(f"/{path}".endswith(f"/{name}") for path in tests)] == []


@pytest.mark.planted
def test_a_flag_that_does_not_exist_would_be_found():
    (found,) = COMMAND.findall("`attendant export tensorrt DIR --fast`")
    assert "--fast" in found[1] and "--fast" not in FROZEN["export tensorrt"]
