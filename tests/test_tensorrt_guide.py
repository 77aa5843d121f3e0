"""Every command of the pages on TensorRT and on kernels exists, with its flags, and every test that they rest on."""

import re
from pathlib import Path

import pytest

from tests.test_command_lines import FROZEN

ROOT = Path(__file__).parent.parent
PAGES = {path.name: path.read_text() for path in (ROOT / "docs/guides/tensorrt.md", ROOT / "docs/reference/kernels.md")}
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
