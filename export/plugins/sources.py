"""The hash of the kernels' sources, which is part of every plugin's."""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from pathlib import Path

_KERNELS = Path(__file__).parents[1] / "kernels"


@cache
def source_hash() -> str:
    """SHA-256 over every file of export/kernels."""
    parts = (path.name.encode() + b"\0" + path.read_bytes() for path in sorted(_KERNELS.glob("*.py")))
    return sha256(b"\0".join(parts)).hexdigest()
