"""The commands of docs/guides/tune.md, with fewer combinations and shorter runs than a reader would take."""

import json
import re

import pytest

from tests.end_to_end.documents import ROOT, commands, shell, succeeded

EXPORT, TUNE, FORMS = commands((ROOT / "docs/guides/tune.md").read_text())
SHORT = "--max-num-seqs 4 16 --max-prefill-tokens 256 --threads 1 --instances 1 2 --finalists 1 --requests 200"


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_settings_are_searched_as_the_guide_says():
    succeeded(EXPORT)
    found = shell(f"{TUNE} {SHORT} --duration-s 2 --exploratory")
    assert found.returncode == 0, found.stderr
    assert "simulated" in found.stdout and "the defaults" in found.stdout and "profiles" in found.stderr
    assert re.search(
        r"^attendant repository build/stdlib-lm --out build/repository --threads 1", found.stdout, re.M
    ) or ("there are no settings to recommend" in found.stdout and "INVALID" in found.stdout)
    again = shell(f"{TUNE} {SHORT} --duration-s 2 --goal latency --rate 40/s --json --exploratory")
    trials = json.loads(again.stdout)["trials"]
    assert len(trials) == 4 and sum(trial["measured"] is not None for trial in trials) <= 2


@pytest.mark.slow
def test_the_fastest_form_is_exported_as_the_guide_says():
    found = shell(f"{FORMS} --seconds 1 --threads 1")
    assert found.returncode == 0, found.stderr
    assert re.search(
        r"^build/tuned is int[48](-prefill-int8)?: attendant export onnx stdlib-lm --prec", found.stdout, re.M
    )
    assert json.loads((ROOT / "build/tuned/tuning.json").read_text())["requests"]["batch"] == 4
