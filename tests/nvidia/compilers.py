"""Folders of the environment that hold other compilers than the tests' own; `make test-proofs` makes them."""

import sys
from pathlib import Path

import pytest


def folder_of(name):
    """The folder of a compiler, such as ``triton-3.7.1``."""
    folder = Path(sys.prefix) / name
    if not folder.is_dir():
        pytest.skip(f"needs {name} in {folder}: `make test-proofs` installs it")
    return folder
