"""An open-loop load: requests arrive when they are scheduled, whatever became of those before them.

Only where so many are in flight already does one wait, and it counts as late by as much; the figures say how often.
Meanwhile the resident memory of the server and of its stubs is sampled:

    slope       of a straight line fitted to the samples after the warm-up
    quartiles   median of the first and of the last quarter of these samples
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from tritonclient.grpc import aio

from benchmarks.harness.machine import OtherProcesses, process_status
from benchmarks.soak.mix import MixedRequest
from benchmarks.soak.streams import StreamRecord, request_tensors, send
from serving.triton.server.process import TritonServer

MAX_CONCURRENCY = 64
SAMPLES = 200
MB = 1e6


def resident_mb(group: int) -> dict[str, float]:
    """Of each process of a group: the server's, and a stub's by the name of its model."""
    found: dict[str, float] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        status = process_status(folder)
        if not status or int(status[2]) != group:
            continue
        try:
            words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
            pages = int((folder / "statm").read_text().split()[1])
        except (OSError, ValueError, IndexError):  # it ended meanwhile
            continue
        name = Path(words[0]).name.replace("python", "guard of the server")
        if "triton_python_backend_stub" in words[0]:
            model = next((Path(word).parts[-3] for word in words if word.endswith("model.py")), "a model")
            name = f"stub of {model}"
        found[name] = found.get(name, 0.0) + pages * 4096 / MB
    return found


@dataclass(slots=True)
class MemoryRecord:
    """Samples over a run: seconds since the start, and of each process one value a sample."""

    seconds: list[float] = field(default_factory=list)
    megabytes: dict[str, list[float]] = field(default_factory=dict)

    async def follow(self, group: int, every_s: float) -> None:
        """Take samples until cancelled."""
        began = time.monotonic()
        while True:
            self.seconds.append(time.monotonic() - began)
            for name, value in resident_mb(group).items():
                self.megabytes.setdefault(name, []).append(value)
            await asyncio.sleep(every_s)

    def growth(self, requests: int, warm_up: float = 0.25) -> dict[str, dict[str, float]]:
        """For each process its slope in MB per 1000 requests, and the quartiles in MB, behind the warm-up's share."""
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


@dataclass(slots=True)
class SoakLoad:
    """What a load met; ``held_back`` are requests that had to wait because so many were in flight."""

    records: list[StreamRecord] = field(default_factory=list)
    memory: MemoryRecord = field(default_factory=MemoryRecord)
    seconds: float = 0.0
    held_back: int = 0
    most_in_flight: int = 0
    others: float = 0.0


async def load(
    server: TritonServer, requests: Sequence[MixedRequest], prompts: Mapping[str, Sequence[Any]], minutes: float
) -> SoakLoad:
    """Send requests as they arrive, until all are sent or the time is over, and wait for every answer."""
    assert server.group is not None
    result = SoakLoad()
    client = aio.InferenceServerClient(server.endpoints.grpc)
    expected_s = sum(one.gap_s for one in requests)
    watching = asyncio.create_task(result.memory.follow(server.group, min(expected_s, minutes * 60) / SAMPLES))
    began, others = time.monotonic(), OtherProcesses(server.group)
    tasks: list[asyncio.Task[StreamRecord]] = []
    free = asyncio.Semaphore(MAX_CONCURRENCY)
    try:
        due_s = began
        for one in requests:
            due_s += one.gap_s
            await asyncio.sleep(max(0.0, due_s - time.monotonic()))
            if time.monotonic() - began > minutes * 60:
                break
            result.held_back += free.locked()
            await free.acquire()
            tensors = request_tensors(prompts[one.model][one.prompt], one.options, one.stream)
            sending = send(client, one.model, tensors, one.cancel_after, one.cancel_at_s)
            tasks.append(asyncio.create_task(sending))
            tasks[-1].add_done_callback(lambda _: free.release())
            result.most_in_flight = max(result.most_in_flight, sum(not task.done() for task in tasks[-200:]))
        result.records = list(await asyncio.gather(*tasks))
    finally:
        result.seconds, result.others = time.monotonic() - began, others.share()
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching
        await client.close()
    return result
