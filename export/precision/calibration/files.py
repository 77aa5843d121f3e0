"""The files among which samples are looked for."""

from pathlib import Path


def sample_files(path: Path) -> list[Path]:
    """The file itself, or those below a folder in the order of their names; hidden ones are left out."""
    found = sorted(path.rglob("*")) if path.is_dir() else [path]
    return [file for file in found if file.is_file() and not file.name.startswith(".")]
