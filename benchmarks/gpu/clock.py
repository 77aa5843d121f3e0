"""How long a GPU takes for a call, and how fast it copies and multiplies: what all times of one run stand beside."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass

import torch

FLUSHED_BYTES = 512 * 2**20
"""Written before every call: more than any cache of today's GPUs, so that a call finds its inputs in memory."""
_WARM, _TIMED = 5, 30


@dataclass(frozen=True, slots=True)
class Roofs:
    """What the GPU can do at most.

    Attributes:
        bytes_per_second: read and written by a copy of 1 GiB.
        flops: of a product of square matrices of 8192 in float16.
    """

    bytes_per_second: float
    flops: float


def milliseconds(call: Callable[[], object]) -> float:
    """Median time of a call on the current CUDA device, its inputs not in any cache."""
    flushed = torch.empty(FLUSHED_BYTES, dtype=torch.uint8, device="cuda")
    for _ in range(_WARM):
        call()
    pairs = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(_TIMED)]
    for begin, end in pairs:
        # The GPU is still writing when the call is queued, so that Python's time is not in it.
        flushed.zero_()
        begin.record()
        call()
        end.record()
    torch.cuda.synchronize()
    return statistics.median(begin.elapsed_time(end) for begin, end in pairs)


def roofs() -> Roofs:
    """Measure the current CUDA device."""
    source = torch.empty(2**30, dtype=torch.uint8, device="cuda")
    target, side = torch.empty_like(source), 8192
    a, b = torch.randn(2, side, side, dtype=torch.float16, device="cuda")
    copied = milliseconds(lambda: target.copy_(source))
    multiplied = milliseconds(lambda: a @ b)
    return Roofs(2 * source.numel() / copied * 1e3, 2 * side**3 / multiplied * 1e3)
