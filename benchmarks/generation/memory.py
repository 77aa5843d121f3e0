"""The resident memory of a server and of its stubs over time, and whether it grows.

slope       of a straight line fitted to the samples after the warm-up
quartiles   median of the first and of the last quarter of these samples
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import numpy as np

MB = 1e6


def resident(group: int) -> dict[str, float]:
    """Megabytes of each process of a group: the server's, and a stub's by the name of its model."""
    found: dict[str, float] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if int((folder / "stat").read_text().rpartition(")")[2].split()[2]) != group:
                continue
            words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
            pages = int((folder / "statm").read_text().split()[1])
        except (OSError, ValueError, IndexError):  # it ended meanwhile
            continue
        name = _name(words)
        found[name] = found.get(name, 0.0) + pages * 4096 / MB
    return found


@dataclass(slots=True)
class MemoryRecord:
    """Samples over a run.

    Attributes:
        seconds: when, since the start.
        megabytes: process → one value a sample.
    """

    seconds: list[float] = field(default_factory=list)
    megabytes: dict[str, list[float]] = field(default_factory=dict)

    async def follow(self, group: int, every_s: float) -> None:
        """Take samples until cancelled."""
        began = time.monotonic()
        while True:
            self.seconds.append(time.monotonic() - began)
            for name, value in resident(group).items():
                self.megabytes.setdefault(name, []).append(value)
            await asyncio.sleep(every_s)

    def growth(self, requests: int, warm_up: float = 0.25) -> dict[str, dict[str, float]]:
        """For each process: its slope in MB per 1000 requests, and the quartiles in MB.

        Args:
            requests: that the whole run answered.
            warm_up: the share of the samples that is left out.
        """
        growths = {}
        for name, values in self.megabytes.items():
            kept = values[int(len(values) * warm_up) :]
            quarter = max(len(kept) // 4, 1)
            steps = np.polyfit(np.arange(len(kept)), kept, 1)[0] if len(kept) > 1 else 0.0
            growths[name] = {
                "slope_mb_per_1000_requests": float(steps) * len(values) / max(requests, 1) * 1000,
                "first_quartile_mb": median(kept[:quarter]),
                "last_quartile_mb": median(kept[-quarter:]),
                "largest_mb": max(values),
            }
        return growths


def _name(words: list[str]) -> str:
    if "triton_python_backend_stub" in words[0]:
        return "stub of " + next((Path(word).parts[-3] for word in words if word.endswith("model.py")), "a model")
    return Path(words[0]).name.replace("python", "guard of the server")
