"""The guide to anybody's ONNX file, followed word by word."""

import re

import pytest

from export.mixed_precision.request import Request
from tests.end_to_end.documents import ROOT, blocks, commands, run_python, succeeded

GUIDE = (ROOT / "docs/guides/onnx-precision.md").read_text()


@pytest.mark.slow
def test_every_command_of_the_guide_does_what_the_guide_says():
    export, half, int8, two_files, two_precisions = commands(GUIDE)
    (samples,) = blocks(GUIDE, "python")
    succeeded(export)
    shown = succeeded(half)
    assert re.search(r"any-fp16.onnx: \d+ operators in fp16, \d+ kept in float32", shown)
    assert "of at most 0.005 σ" in shown and "Kept by measurement" in (ROOT / "build/any-fp16.html").read_text()
    run_python(samples)
    assert "of at most 0.1 σ" in (shown := succeeded(int8)) and "8 inputs samples.npz" in shown
    assert "first drift: node" in succeeded(two_files)
    assert "first drift: node" in succeeded(two_precisions)


def test_the_budgets_that_the_guide_states_are_those_of_the_verb():
    stated = dict(re.findall(r"^\| `(\w+)` \|.*\| (\S+) σ \|$", GUIDE, re.MULTILINE))
    limits = {name: f"{Request(precision=name, sizes={}).limit:g}" for name in ("fp16", "bf16", "int8")}
    assert stated == limits
