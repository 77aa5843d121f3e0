"""The tests in interpreted/ in processes whose Triton interprets."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FILES = sorted(Path(__file__).with_name("interpreted").glob("test_*.py"))
ENVIRONMENT = ["env", "--unset=PYTEST_XDIST_WORKER", "--unset=PYTEST_XDIST_WORKER_COUNT", "TRITON_INTERPRET=1"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_kernels_compute_what_their_references_do(file):
    command = [*ENVIRONMENT, sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(file)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]


def test_there_is_a_file_for_every_kernel():
    kernels = {file.stem for file in (ROOT / "export" / "kernels").glob("*_attention.py")}
    assert {file.stem.removeprefix("test_") for file in FILES} >= kernels


def test_a_process_that_compiles_collects_none_of_them():
    command = [sys.executable, "-m", "pytest", "--collect-only", "-p", "no:cacheprovider", str(FILES[0].parent)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == pytest.ExitCode.NO_TESTS_COLLECTED
