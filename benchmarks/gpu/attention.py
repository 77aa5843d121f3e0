"""Our kernels of attention beside the libraries', on one GPU, in one run with its copy bandwidth and matmul peak.

    python benchmarks/gpu/attention.py [--out DIR] [--quick]

Every call finds its inputs in memory and not in a cache; times are medians. float16 throughout. Prefill and decode:
``torch.nn.functional.scaled_dot_product_attention`` by each of its back ends. Windows: the library's route cuts the map,
attends with a bias and mask of all pairs, and joins; ours reads the map as it lies, and so is held to the whole of it.
Writes ``<date>-gpu-attention.md`` and ``.json``.
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import triton

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.gpu.cases import Case, decode, prefill, windows  # noqa: E402
from benchmarks.gpu.clock import Roofs, milliseconds, roofs  # noqa: E402
from models.errors import MachineError  # noqa: E402
from models.progress import progress  # noqa: E402

TARGETS = {"prefill": 0.9, "decode": 1.2, "windows": 2.0}
"""How many times as fast as the best library a kernel is to be."""
DECODE_BANDWIDTH, LONG_CACHE = 0.85, 4096
"""Part of the copy bandwidth that decoding is to reach behind caches of this length and longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One case's times in milliseconds; a library that cannot do it has none."""

    kind: str
    name: str
    ours: float
    rivals: dict[str, float | None]
    flops: int
    read_bytes: int

    @property
    def speedup(self) -> float | None:
        """Times as fast as the fastest library."""
        times = [time for time in self.rivals.values() if time is not None]
        return min(times) / self.ours if times else None

    def roof_part(self, limits: Roofs) -> float:
        """Part of the bandwidth, where decoding, or else of the roof that is nearer."""
        memory = self.read_bytes / (self.ours / 1e3) / limits.bytes_per_second
        return memory if self.kind == "decode" else max(memory, self.flops / (self.ours / 1e3) / limits.flops)


def cases(quick: bool) -> Iterator[Case]:
    """Every case, made when its turn comes, so that two never share the memory."""
    multiprocessors = torch.cuda.get_device_properties().multi_processor_count
    for length in (2048,) if quick else (512, 2048, 8192, 16384):
        yield prefill(1, 32, 8, length, 128, True, "cuda")
        yield prefill(4, 16, 16, length, 64, True, "cuda")
    yield prefill(32, 12, 12, 197, 64, False, "cuda")
    yield prefill(8, 16, 16, 1024, 80, False, "cuda")
    for batch in (1,) if quick else (1, 4, 16):
        for cached in (4096,) if quick else (1024, 4096, 16384, 65536):
            yield decode(batch, 32, 8, cached, 128, multiprocessors, "cuda")
    for side, heads in ((56, 3),) if quick else ((56, 3), (28, 6), (14, 12), (7, 24)):
        yield windows(64, side, heads, 32, 7, 3 if side > 7 else 0, True, "cuda")
    yield windows(16, 64, 4, 32, 16, 8, True, "cuda")


def measure(case: Case, clock: Callable[[Callable[[], object]], float] = milliseconds) -> Measured:
    """Time our kernel and every library that can do the same."""
    rivals: dict[str, float | None] = {}
    for name, call in case.rivals.items():
        try:
            rivals[name] = clock(call)
        except RuntimeError:
            rivals[name] = None
    return Measured(
        kind=case.kind,
        name=case.name,
        ours=clock(case.ours),
        rivals=rivals,
        flops=case.flops,
        read_bytes=case.read_bytes,
    )


def report(measured: list[Measured], limits: Roofs, title: str) -> str:
    """Markdown: a table a kind, with whether each case reaches its target."""
    lines = [
        f"# {title}",
        "",
        f"- copy bandwidth: {limits.bytes_per_second / 1e9:.0f} GB/s read and written",
        f"- product of matrices of 8192, float16: {limits.flops / 1e12:.0f} TFLOP/s",
    ]
    for kind in TARGETS:
        rows = [one for one in measured if one.kind == kind]
        lines += ["", f"## {kind}: at least {TARGETS[kind]} × the best library", "", *_table(rows, limits)]
    return "\n".join(lines) + "\n"


def reaches(one: Measured, limits: Roofs) -> bool | None:
    """Whether a case is as fast as it is to be; None if no library could be compared."""
    if one.speedup is None:
        return None
    long = one.kind == "decode" and f"M {LONG_CACHE - 1}" < one.name  # replaced below
    return one.speedup >= TARGETS[one.kind] and (not long or one.roof_part(limits) >= DECODE_BANDWIDTH)
