"""How long a device takes for a call, and how fast it copies and multiplies: what all times of one run stand beside.

On a CPU the same functions take a few readings of the processor's clock: a trial of the scripts, whose figures mean
nothing.
"""

import importlib.metadata
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from benchmarks.harness.rounds import wall_seconds

FLUSHED_BYTES = 512 * 2**20
"""Read before every call: more than any cache of today's GPUs, so that a call finds its inputs in memory."""
_WARM, _TIMED = 5, 30
_TRIED = 2
_CYCLES_A_SECOND = 2.0e9
"""Of the fastest of today's GPUs; a slower one waits longer, which does no harm."""
_LEAST_AHEAD_S = 1e-4


@dataclass(frozen=True, slots=True)
class Roofs:
    """What the device can do at most: bytes that a copy reads and writes, and a product of matrices in float16."""

    bytes_per_second: float
    flops: float


def describe_gpu() -> dict[str, str]:
    """The device and the versions, a line each."""
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "a CPU: figures mean nothing"
    try:
        language = importlib.metadata.version("triton")
    except importlib.metadata.PackageNotFoundError:
        language = "none"
    return {"device": device, "versions": f"torch {torch.__version__}, CUDA {torch.version.cuda}, Triton {language}"}


def milliseconds(call: Callable[[], object], device: torch.device, timed: int = _TIMED) -> float:
    """Median time of a call, its inputs not in any cache."""
    if device.type == "cuda":
        return _on_gpu(call, device, timed)
    call()
    return 1e3 * statistics.median(wall_seconds(call) for _ in range(_TRIED))


def roofs(device: torch.device, copied: int = 2**30, side: int = 8192) -> Roofs:
    source = torch.zeros(copied, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    a, b = torch.randn(2, side, side, device=device).half()
    copy_ms = milliseconds(lambda: target.copy_(source), device)
    multiply_ms = milliseconds(lambda: a @ b, device)
    return Roofs(2 * copied / copy_ms * 1e3, 2 * side**3 / multiply_ms * 1e3)


def _on_gpu(call: Callable[[], object], device: torch.device, timed: int) -> float:
    with torch.cuda.device(device):
        # Read, not written: lines that are dirty would go to memory during the call.
        flushed = torch.zeros(FLUSHED_BYTES // 4, dtype=torch.float32, device=device)
        for _ in range(_WARM):
            call()
        torch.cuda.synchronize()
        began = time.perf_counter()
        call()
        queued_s = time.perf_counter() - began
        torch.cuda.synchronize()
        ahead = int(2 * max(queued_s, _LEAST_AHEAD_S) * _CYCLES_A_SECOND)
        pairs = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(timed)]
        for begin, end in pairs:
            flushed.sum()
            # The GPU is still waiting when the call has been queued, so that no time of Python's is in it.
            torch.cuda._sleep(ahead)
            begin.record()
            call()
            end.record()
        torch.cuda.synchronize()
        return float(statistics.median(begin.elapsed_time(end) for begin, end in pairs))
