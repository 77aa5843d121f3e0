"""The house itself: packages come from this checkout, files stay small, every room has something in it."""

import importlib
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("attendant", "models", "export", "serving", "clients", "commands")
MOST_LINES = 400


def tracked(*patterns):
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [ROOT / line for line in listed.stdout.splitlines()]


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_is_imported_from_this_checkout(package):
    assert Path(importlib.import_module(package).__file__).parent == ROOT / package


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_declares_its_types(package):
    assert (ROOT / package / "py.typed").is_file()


def test_no_file_is_longer_than_400_lines():
    long = {path: count for path in tracked("*.py") if (count := len(path.read_text().splitlines())) > MOST_LINES}
    assert long == {}


def test_every_folder_with_tests_is_a_package():
    folders = {path.parent for path in tracked("tests/*.py")}
    assert [folder for folder in folders if not (folder / "__init__.py").is_file()] == []


def test_no_module_hides_a_package_that_we_import():
    hidden = {"onnx.py", "torch.py", "numpy.py", "tokenizers.py", "statistics.py", "types.py", "logging.py"}
    assert [path for path in tracked("*.py") if path.name in hidden] == []


def test_only_weights_are_larger_than_2_megabytes():
    files = [path for path in tracked() if path.is_file() and path.suffix != ".safetensors"]
    assert [path for path in files if path.stat().st_size > 2_000_000] == []


def test_a_shipped_checkpoint_is_smaller_than_4_megabytes():
    folders = {path.parent for path in tracked("models/pretrained/*/config.json")}
    sizes = {folder.name: sum(path.stat().st_size for path in folder.iterdir()) for folder in folders}
    assert len(sizes) >= 4
    assert {name: size for name, size in sizes.items() if size >= 4_000_000} == {}


def test_the_architecture_document_names_every_package_and_its_files():
    text = (ROOT / "docs" / "explanation" / "architecture.md").read_text()
    modules = [path for package in PACKAGES for path in (ROOT / package).glob("*.py") if path.name != "__init__.py"]
    assert [path for path in modules if path.stem not in text] == []
