"""The generated pages of docs/reference are what the code says today, and say it of everything."""

import inspect
import re

import pytest

from attendant.manifest import Manifest
from commands.reference import FOLDER, PAGES, command_line_page, manifest_page, metrics_page
from serving.engine import meter
from serving.engine.engine import Engine
from serving.engine.meter import Meter
from serving.lint.registry import COMMAND_RULES, FILE_RULES, MODEL_RULES
from tests.test_command_lines import FROZEN


def rows(page):
    return [re.split(r" ?\| ?", line)[1:-1] for line in page.splitlines() if line.startswith("| `")]


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_what_the_code_writes(name):
    assert (FOLDER / name).read_text() == PAGES[name](), "run python -m commands.reference"


def test_every_verb_is_on_the_page_of_the_command_line():
    page = command_line_page()
    assert [verb for verb in FROZEN if f"\n## attendant {verb}\n" not in page] == []


def test_every_key_of_a_manifest_is_on_its_page(tmp_path):
    Manifest(name="a", task="b", family="c", config={}, graphs=(), files={}).write(tmp_path)
    keys = set(re.findall(r'^  "(\w+)":', (tmp_path / "manifest.json").read_text(), re.MULTILINE))
    described = {row[0].strip("`") for row in rows(manifest_page().partition("### GraphSignature")[0])}
    assert len(keys) > 10 and keys - described == {"format"}


def test_every_row_of_metrics_and_manifest_says_what_it_means():
    assert [
        row for page in (metrics_page(), manifest_page()) for row in rows(page) if len(row) != 4 or not row[3]
    ] == []


def test_every_engine_metric_is_something_that_an_engine_counts():
    counted = {*meter.ENDINGS, *meter.COUNTERS, *meter.GAUGES, *meter.TIMES}
    assert [name for name in counted if name not in Meter.__dataclass_fields__] == []
    assert [name for name in meter.SIZES if f"self.{name} = " not in inspect.getsource(Engine.__init__)] == []


def test_every_rule_of_the_linter_is_on_its_page():
    named = {row[0] for row in rows(PAGES["lint-rules.md"]())}
    assert named == {f"`{rule.name}`" for rule in (*FILE_RULES, *MODEL_RULES, *COMMAND_RULES)}
