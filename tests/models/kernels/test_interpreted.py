"""The tests in interpreted/ in processes whose Triton interprets: one for the planted bugs and one for the rest."""

from pathlib import Path

import pytest

from tests.models.kernels.processes import ROOT, environment_with, pytest_in_a_process, require_success

FILES = sorted(Path(__file__).with_name("interpreted").glob("test_*.py"))
PLANTED = next(file for file in FILES if file.stem == "test_planted_bugs")
ENVIRONMENT = environment_with("TRITON_INTERPRET=1")


@pytest.mark.slow
def test_the_comparisons_catch_every_planted_bug():
    require_success(pytest_in_a_process(PLANTED, environment=ENVIRONMENT))


@pytest.mark.slow
@pytest.mark.timeout(900)  # the tests within have a limit each
def test_kernels_compute_what_their_references_do():
    others = [file for file in FILES if file != PLANTED]
    require_success(pytest_in_a_process("-m", "slow or not slow", *others, environment=ENVIRONMENT))


def test_there_is_a_file_for_every_kernel():
    kernels = {file.stem for file in (ROOT / "export" / "kernels").glob("*_attention.py")}
    assert {file.stem.removeprefix("test_") for file in FILES} >= kernels


@pytest.mark.slow
def test_a_process_that_compiles_collects_none_of_them():
    done = pytest_in_a_process("--collect-only", FILES[0].parent)
    assert done.returncode == pytest.ExitCode.NO_TESTS_COLLECTED
