"""Every command of docs/guides/capacity.md, and what it is said to print."""

import pytest

from attendant.manifest import Manifest
from serving.capacity.profile import ReplicaProfile
from tests.end_to_end.documents import ROOT, blocks, commands, run_python, succeeded

GUIDE = (ROOT / "docs/guides/capacity.md").read_text()
DEMAND = (ROOT / "docs/examples/capacity/chat.toml").read_text()
EXPORT, PROFILE, PLAN, PLAN_OF_GPUS = commands(GUIDE)


def lines(text):
    return [line.rstrip() for line in text.rstrip().splitlines()]


@pytest.mark.slow
def test_the_plan_is_the_one_that_is_printed():
    assert [lines(block) for block in blocks(GUIDE, "toml")] == [lines(DEMAND)]
    assert lines(succeeded(PLAN)) == lines(blocks(GUIDE, "text")[0])


@pytest.mark.slow
def test_the_arithmetic_agrees_with_the_simulation():
    assert [run_python(block) for block in blocks(GUIDE, "python")] == ["2 True\n3 True\n"]


@pytest.mark.slow
def test_a_plan_of_gpus_is_made_of_a_profile_by_hand():
    told = succeeded(PLAN_OF_GPUS.replace("--requests 2000", "--requests 150"))
    assert "GPU(s)" in told and "a month of 730 hours" in told
    assert lines(blocks(GUIDE, "text")[1])[0] == lines(told)[0]


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_profile_is_measured_as_the_guide_says():
    # What serving adds takes a minute to measure: tests/serving/capacity/profiling measures it in parts.
    succeeded(EXPORT)
    assert "largest errors" in succeeded(f"{PROFILE} --no-served --exploratory")
    made = ReplicaProfile.read(ROOT / "build/stdlib-lm.profile.json")
    assert made.name == Manifest.read(ROOT / "build/stdlib-lm").name == "stdlib-lm"
