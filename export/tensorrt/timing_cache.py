"""What TensorRT has timed on one kind of GPU with one version, kept from build to build: a file for each of them."""

import os
import re
from collections.abc import Callable
from pathlib import Path

from attendant.engine_manifest import Platform
from attendant.errors import OutputError
from attendant.folders import one_at_a_time
from export.artefact.remembered_hashes import memory_file


def timing_file(platform: Platform) -> Path:
    """Where the timings of a GPU and a version are kept."""
    gpu = re.sub(r"[^A-Za-z0-9]+", "-", platform.gpu).strip("-").lower()
    return memory_file().parent / "timings" / f"{gpu}-{platform.capability}-tensorrt-{platform.tensorrt}.cache"


def read_timings(platform: Platform) -> bytes:
    """The timings that are known; empty where there are none."""
    try:
        return timing_file(platform).read_bytes()
    except OSError:
        return b""


def keep_timings(platform: Platform, combined: Callable[[bytes], bytes]) -> None:
    """Keep timings for the next build; where that cannot be, it costs time and nothing else.

    Args:
        platform: that they were taken on.
        combined: from what another build may have kept in the meantime to both together.
    """
    path = timing_file(platform)
    try:
        with one_at_a_time(path):
            staged = path.with_suffix(f".{os.getpid()}")
            staged.write_bytes(combined(read_timings(platform)))
            staged.replace(path)
    except (OSError, OutputError):
        return
