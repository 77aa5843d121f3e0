"""The hash of the kernels' sources, which is part of every plugin's."""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from pathlib import Path

_FOLDERS = ("kernels", "kernel_configs")


@cache
def source_hash() -> str:
    """SHA-256 over every file of models/kernels and models/kernel_configs."""
    models = Path(__file__).parents[3] / "models"
    files = sorted(path for folder in _FOLDERS for path in (models / folder).glob("*.py"))
    parts = (str(path.relative_to(models)).encode() + b"\0" + path.read_bytes() for path in files)
    return sha256(b"\0".join(parts)).hexdigest()
