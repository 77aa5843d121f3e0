"""Tests in a process of their own, whose Triton interprets, or is another."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def pytest_in_a_process(*words, environment=()):
    command = [*environment, sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *map(str, words)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def require_success(done):
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]


def environment_with(*settings):
    """As words before a command: the settings, and nothing that says it were a worker of this run."""
    return ["env", "--unset=PYTEST_XDIST_WORKER", "--unset=PYTEST_XDIST_WORKER_COUNT", *settings]
