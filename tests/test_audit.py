"""An audit that knew nothing is not taken for one that found nothing."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.audit import FINE, NO_DATA, VULNERABLE, judge
from tests.conftest import ROOT

GOOD = {"name": "numpy", "version": "1.26.4", "vulns": []}
BAD = {
    "name": "requests",
    "version": "2.0",
    "vulns": [{"id": "PYSEC-1", "fix_versions": ["2.1"], "aliases": [], "description": ""}],
}
SKIPPED = {"name": "torch", "skip_reason": "Dependency not found and could not be audited: torch (2.13.0)"}


def wrote(*packages):
    return json.dumps({"dependencies": list(packages), "fixes": []})


def test_a_known_fault_is_named_with_its_fix():
    verdict = judge(wrote(GOOD, BAD), "")
    assert verdict.status == VULNERABLE
    assert verdict.lines == ("requests 2.0: PYSEC-1, fixed in 2.1", "audited 2; 1 known faults")


def test_none_is_fine_and_what_was_skipped_is_named():
    verdict = judge(wrote(GOOD, SKIPPED), "")
    assert (verdict.status, verdict.lines[-1]) == (FINE, "no data on 1: torch")


@pytest.mark.planted
@pytest.mark.parametrize(
    ("output", "errors", "reason"),
    [
        (wrote(SKIPPED, SKIPPED), "", "on any of 2 packages: Dependency not found"),
        (wrote(), "", "no packages"),
        ("", "ERROR: a\nERROR: connection refused\n", "connection refused"),
        ("", "", "it wrote nothing"),
        ("No known vulnerabilities found", "", "it wrote nothing"),
    ],
    ids=["all skipped", "none", "no network", "nothing", "no JSON"],
)
def test_an_audit_without_data_says_so_and_is_not_green(output, errors, reason):
    verdict = judge(output, errors)
    assert verdict.status == NO_DATA
    assert verdict.lines[0].startswith("not audited: ") and reason in verdict.lines[0]


@pytest.mark.planted
def test_bandit_finds_what_is_insecure_by_our_configuration(tmp_path):
    (tmp_path / "shell.py").write_text("import subprocess\nsubprocess.run('ls ' + input(), shell=True)\n")
    words = [sys.executable, "-m", "bandit", "--quiet", "--configfile", ROOT / "pyproject.toml", "--format", "json"]
    ran = subprocess.run([*words, tmp_path / "shell.py"], capture_output=True, text=True)
    assert [one["test_id"] for one in json.loads(ran.stdout)["results"]] == ["B602"]


def test_every_exception_for_bandit_names_its_rule():
    listed = subprocess.run(["git", "grep", "-h", "# nosec", "--", "*.py", ":!tests"], cwd=ROOT, capture_output=True)
    lines = listed.stdout.decode().splitlines()
    assert lines and all("# nosec B" in line for line in lines)
    assert Path(ROOT / "Makefile").read_text().count("$(BIN)/bandit") == 1
