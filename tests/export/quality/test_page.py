"""docs/reference/precision.md says what the code measures: a part of it is measured again here."""

import re
import shutil
from pathlib import Path

import pytest

from attendant.errors import OutputError
from export.precision.precisions import PRECISIONS
from export.quality.budgets import BUDGETS
from export.quality.comparison import compare_models
from export.quality.comparison_report import HEAD, rows_of
from export.quality.page import write_page
from export.verbs import compare
from models.checkpoints.place import shipped_names

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "precision.md"


def parsed(text):
    """Model, precision and graph → column → text."""
    rows, model = {}, ""
    for line in text.splitlines():
        if line.startswith("## "):
            model = line[3:]
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and len(cells) == len(HEAD) and cells[0] in PRECISIONS:
            rows[model, cells[0], cells[1]] = dict(zip(HEAD, cells, strict=True))
    return rows


def numbers(cell):
    return [float(number) for number in re.findall(r"\d+(?:\.\d+)?(?:e-?\d+)?", cell)]


def size(cell):
    return numbers(cell)[0] * {"kB": 1e3, "MB": 1e6}[cell.split()[1]]


@pytest.fixture(scope="module")
def artefacts(digits_artefact, dates_artefact, tmp_path_factory):
    out = tmp_path_factory.mktemp("compared")
    for folder in (digits_artefact, dates_artefact):
        shutil.copytree(folder, out / folder.name / "fp32")
    return out


@pytest.fixture(scope="module")
def measured(artefacts, tmp_path_factory):
    page = tmp_path_factory.mktemp("docs") / "precision.md"
    write_page(list(compare_models(["digits-vit", "dates-transformer"], ["fp32", "int8"], artefacts, True)), True, page)
    return parsed(page.read_text())


def test_the_page_has_every_shipped_checkpoint_in_every_precision():
    found = {(model, precision) for model, precision, _ in parsed(PAGE.read_text())}
    assert found == {(model, precision) for model in shipped_names() for precision in PRECISIONS}


def test_the_page_shows_the_budgets_that_are_held():
    text = PAGE.read_text()
    for name in PRECISIONS:
        budget = BUDGETS[name]
        assert f"| {budget.drift:g} σ | {budget.kl:g} | {100 * budget.top1:g} % | {budget.loss:g} points |" in text
        assert budget.why in text


def test_every_shipped_checkpoint_is_within_the_budget_of_every_precision_that_it_has():
    verdicts = {key: row["verdict"] for key, row in parsed(PAGE.read_text()).items()}
    assert {verdict.split(":")[0] for verdict in verdicts.values()} <= {"within", "none"}


def test_its_numbers_are_found_again(measured):
    assert {(model, precision) for model, precision, _ in measured} == {
        (model, precision) for model in ("digits-vit", "dates-transformer") for precision in ("fp32", "int8")
    }
    page = parsed(PAGE.read_text())
    for key, row in measured.items():
        wanted = page[key]
        assert size(row["files"]) == pytest.approx(size(wanted["files"]), rel=0.05), key
        assert numbers(row["drift, worst step"])[0] == pytest.approx(
            numbers(wanted["drift, worst step"])[0], rel=1.0
        ), key
        assert numbers(row["KL mean, max"])[0] == pytest.approx(numbers(wanted["KL mean, max"])[0], rel=2.0), key
        assert numbers(row["top-1"]) == pytest.approx(numbers(wanted["top-1"]), abs=0.6), key
        assert numbers(row["greedy prefix"]) == pytest.approx(numbers(wanted["greedy prefix"]), rel=0.01), key
        right = "right answers (reference)"
        assert numbers(row[right]) == pytest.approx(numbers(wanted[right]), abs=0.6), key
        assert row["verdict"] == wanted["verdict"] == "within", key


def test_int8_is_smaller_and_differs_where_fp32_does_not(measured):
    plain, small = measured["digits-vit", "fp32", "served"], measured["digits-vit", "int8", "served"]
    assert size(small["files"]) < size(plain["files"]) / 2
    assert numbers(small["drift, worst step"])[0] > 100 * numbers(plain["drift, worst step"])[0]


def test_a_precision_that_is_not_for_a_model_is_a_line_that_says_so(tmp_path):
    (one,) = compare_models(["vit-tiny"], ["int4"], tmp_path, False)
    ((precision, *_, verdict),) = rows_of(one)
    assert precision == "int4"
    assert verdict.startswith("none: a model for caption, generate, translate")


def test_the_command_takes_what_is_there_and_writes_the_page(artefacts, tmp_path, capsys):
    assert compare(("digits-vit",), out=artefacts, precisions=("fp32",), page=tmp_path / "page.md") == 0
    assert "within" in capsys.readouterr().out
    assert set(parsed((tmp_path / "page.md").read_text())) == {("digits-vit", "fp32", "served")}


def test_a_page_that_cannot_be_written_is_told():
    with pytest.raises(OutputError, match=r"a place to write at /proc/page\.md"):
        write_page([], False, Path("/proc/page.md"))
