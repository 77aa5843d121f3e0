"""What every document must keep: an index of all, links that lead somewhere, and the words of the field."""

import re
import subprocess

import pytest

from attendant.parameter_tables import parameter_tables
from tests.conftest import ROOT
from tests.run_here import run_here
from tests.test_command_lines import FROZEN

PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
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


def links(page):
    return re.findall(r"\]\((?!https?:)([^)#\s]+)(?:#[^)]*)?\)", page.read_text())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_file_of_the_repository(page):
    assert [link for link in links(page) if not (page.parent / link).exists()] == []


def test_the_index_leads_to_every_page():
    index = ROOT / "docs" / "index.md"
    listed = {(index.parent / link).resolve() for link in links(index)}
    others = {page for page in PAGES if page.is_relative_to(index.parent) and page != index}
    decisions = {page for page in others if page.parent.name == "decisions"}
    assert others - decisions - listed == {ROOT / "docs" / "examples" / "README.md"} and decisions & listed


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 160


@pytest.mark.parametrize("word", GONE)
def test_a_word_of_the_past_stays_gone_from_what_users_read(word):
    shown = [run_here("attendant", *command.split(), "--help").stdout for command in ("", *FROZEN)]
    reference = ROOT / "docs" / "guides" / "decoding.md", ROOT / "README.md"
    texts = [*shown, parameter_tables(), *(page.read_text() for page in reference)]
    assert [text for text in texts if word in re.sub(r"\s+", " ", text)] == [], f"say {GONE[word]!r}"


@pytest.mark.parametrize("word", ["stop_ids", "ignore_end", "draft_tokens", "any_json", "DecodingOptions"])
def test_a_name_of_the_past_stays_gone_from_the_code(word):
    words = ["git", "grep", "-lw", word, "--", "*.py", ":!tests/test_documents.py"]
    found = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert found.stdout == ""
