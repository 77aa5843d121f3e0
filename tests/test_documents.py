"""What every document must keep: an index of all, links, paths and commands that exist, and the words of the field."""

import re
import subprocess
from pathlib import Path

import pytest

from attendant.parameter_tables import parameter_tables
from tests.conftest import ROOT
from tests.run_here import run_here
from tests.test_command_lines import FROZEN

PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
GENERATED = ROOT / "docs/reference/command-line.md"
# Words that this project once had for what the field calls otherwise (→ the field's).
GONE = {
    "taken back": "cancelled",
    "waiting line": "queue",
    "full line": "queue full",
    "draft_tokens": "num_speculative_tokens",
    "ignore_end": "ignore_eos",
    "stop_ids": "stop_token_ids",
    "any_json": "json_object",
    "--candidates": "--n",
    "--prefix-bytes": "--prefix-cache-bytes",
    "attendant_active": "attendant_num_requests_running",
}
FOLDERS = "attendant|models|export|serving|clients|commands|benchmarks|tests|docs|deploy|model_repository"
GROUPS = "|".join({verb.partition(" ")[0] for verb in FROZEN if " " in verb} - {"keys"})
COMMAND = re.compile(rf"(?<![\w/.\"-])attendant ((?:{GROUPS}) [a-z]+|[a-z]+)(?= |$)([^|#]*)")


def links(page):
    return re.findall(r"\]\((?!https?:)([^)#\s]+)(?:#[^)]*)?\)", page.read_text())


def spans(text):
    """What stands between backticks, blocks apart."""
    return re.findall(r"`([^`]+)`", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL))


def code(text):
    """Every span, and every line of a block, as one line each."""
    joined = text.replace("\\\n", " ")
    fenced = re.findall(r"^```.*?\n(.*?)^```", joined, re.MULTILINE | re.DOTALL)
    lines = [*"\n".join(fenced).splitlines(), *re.findall(r"^    .*$", joined, re.MULTILINE), *spans(joined)]
    return [" ".join(line.split()) for line in lines]


def unknown_commands(text):
    """Commands of a text whose verb, or one of whose flags, does not exist."""
    found = [said for line in code(text) for said in COMMAND.findall(line)]
    return [
        (verb, rest)
        for verb, rest in found
        if (verb, rest) not in {(group, "") for group in GROUPS.split("|")}
        and (verb not in FROZEN or set(re.findall(r"(?<!\S)--[a-z-]+", rest)) - FROZEN[verb] - {"--help", "--verbose"})
    ]


def missing_paths(text):
    """Paths, tests, programs and make targets that a text names and the repository lacks."""
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for span in spans(text):
        path = span.partition("::")[0]
        module = re.match(r"python (?:-m ([\w.]+)|(\S+\.py))", span)
        if re.fullmatch(rf"(?:{FOLDERS})/[\w./*-]*", path):
            if not list(ROOT.glob(path.rstrip("/"))) and not path.startswith("model_repository/"):
                yield span
        elif re.fullmatch(r"test_\w+\.py", path):
            if not list((ROOT / "tests").rglob(path)):
                yield span
        elif module:
            place = ROOT / (module[2] or module[1].replace(".", "/"))
            if not place.exists() and not place.with_suffix(".py").exists():
                yield span
        elif (target := re.fullmatch(r"make ([a-z-]+)", span)) and target[1] not in targets:
            yield span


@every_page
def test_every_link_leads_to_a_file_of_the_repository(page):
    assert [link for link in links(page) if not (page.parent / link).exists()] == []


@every_page
def test_every_path_that_a_page_names_is_there(page):
    assert list(missing_paths(page.read_text())) == []


@pytest.mark.parametrize("page", [page for page in PAGES if page != GENERATED], ids=lambda page: page.name)
def test_every_command_of_a_page_is_a_verb_with_flags_that_it_has(page):
    assert unknown_commands(page.read_text()) == []


@pytest.mark.planted
def test_a_flag_a_verb_and_a_path_that_do_not_exist_would_be_found():
    assert unknown_commands("`attendant export tensorrt DIR --fast`") == [("export tensorrt", " DIR --fast")]
    assert unknown_commands("```sh\nattendant translate --quickly a\nattendant fly\n```\n") == [
        ("translate", " --quickly a"),
        ("fly", ""),
    ]
    said = "`serving/engine/gone.py`, `test_gone.py`, `make gone`, `python -m models.gone`, `python benchmarks/gone.py`"
    assert len(list(missing_paths(said))) == 5
    assert (
        list(missing_paths("`serving/engine/engine.py` `tests/test_layout.py::test_x` `make docs` `models/*/`")) == []
    )


def test_every_file_of_the_architectures_tree_is_there():
    (tree,) = re.findall(r"```\n(README.*?)```", (ROOT / "docs/explanation/architecture.md").read_text(), re.DOTALL)
    missing, room = [], Path()
    for line in tree.splitlines():
        room = Path(line.partition("/")[0]) if re.match(r"\w+/", line) else room if line.startswith(" ") else Path()
        files = re.findall(r"(?<![\w/])(\w+(?:/\w+)*\.py)\b", line)
        missing += [(room, file) for file in files if not list((ROOT / room).rglob(file))]
        missing += [(room, one) for one in re.findall(r"^  (\w+)/", line) if not (ROOT / room / one).is_dir()]
    assert missing == []


def test_the_index_leads_to_every_page():
    index = ROOT / "docs" / "index.md"
    listed = {(index.parent / link).resolve() for link in links(index)}
    others = {page for page in PAGES if page.is_relative_to(index.parent) and page != index}
    decisions = {page for page in others if page.parent.name == "decisions"}
    assert others - decisions - listed == {ROOT / "docs" / "examples" / "README.md"} and decisions & listed


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 160


def test_the_readme_says_in_its_first_lines_what_has_not_been_run():
    first = "\n".join((ROOT / "README.md").read_text().splitlines()[:10])
    assert "not yet" in first and "TensorRT" in first and "GPU" in first


@pytest.mark.parametrize("word", GONE)
def test_a_word_of_the_past_stays_gone_from_what_users_read(word):
    shown = [run_here("attendant", *command.split(), "--help").stdout for command in ("", *FROZEN)]
    texts = [*shown, parameter_tables(), *(page.read_text() for page in PAGES if page != ROOT / "docs/log.md")]
    assert [text for text in texts if re.search(rf"(?<!\w){word}(?!\w)", re.sub(r"\s+", " ", text))] == [], (
        f"say {GONE[word]!r}"
    )


@pytest.mark.parametrize("word", ["stop_ids", "ignore_end", "draft_tokens", "any_json", "DecodingOptions"])
def test_a_name_of_the_past_stays_gone_from_the_code(word):
    words = ["git", "grep", "-lw", word, "--", "*.py", ":!tests/test_documents.py"]
    found = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert found.stdout == ""
