"""The files among which samples are looked for."""

from pathlib import Path


def sample_files(path: Path) -> list[Path]:
    """The file itself, or those below a folder in the order of their names; hidden ones are left out."""
    found = sorted(path.rglob("*")) if path.is_dir() else [path]
    return [file for file in found if file.is_file() and not file.name.startswith(".")]


def array_files(path: Path) -> list[Path]:
    """The file itself, or those of NumPy's in a folder in the order of their names."""
    return sorted(one for one in path.iterdir() if one.suffix in {".npz", ".npy"}) if path.is_dir() else [path]
