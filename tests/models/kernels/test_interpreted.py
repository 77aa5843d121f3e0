"""The tests in interpreted/ in processes whose Triton interprets: one for the planted bugs and one for the rest."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FILES = sorted(Path(__file__).with_name("interpreted").glob("test_*.py"))
PLANTED = next(file for file in FILES if file.stem == "test_planted_bugs")
ENVIRONMENT = ["env", "--unset=PYTEST_XDIST_WORKER", "--unset=PYTEST_XDIST_WORKER_COUNT", "TRITON_INTERPRET=1"]


def pytest_in_a_process(*words, environment=()):
    command = [*environment, sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *map(str, words)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_the_comparisons_catch_every_planted_bug():
    require_success(pytest_in_a_process(PLANTED, environment=ENVIRONMENT))


@pytest.mark.slow
@pytest.mark.timeout(900)  # the tests within have a limit each
def test_kernels_compute_what_their_references_do():
    others = [file for file in FILES if file != PLANTED]
    require_success(pytest_in_a_process("-m", "slow or not slow", *others, environment=ENVIRONMENT))


def require_success(done):
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]


def test_there_is_a_file_for_every_kernel():
    kernels = {file.stem for file in (ROOT / "export" / "kernels").glob("*_attention.py")}
    assert {file.stem.removeprefix("test_") for file in FILES} >= kernels


@pytest.mark.slow
def test_a_process_that_compiles_collects_none_of_them():
    done = pytest_in_a_process("--collect-only", FILES[0].parent)
    assert done.returncode == pytest.ExitCode.NO_TESTS_COLLECTED
