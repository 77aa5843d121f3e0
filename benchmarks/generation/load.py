"""An open-loop load: requests arrive when they were meant to, whatever became of those before them.

Only where so many are in flight already does one wait, and it counts as late by as much; the figures tell how often.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from tritonclient.grpc import aio

from benchmarks.generation.asking import Heard, ask
from benchmarks.generation.memory import MemoryRecord
from benchmarks.generation.mix import Asked
from benchmarks.generation.quiet import Foreign
from benchmarks.generation.tensors import request_tensors
from serving.triton.server.process import TritonServer

MOST_IN_FLIGHT = 64
SAMPLES = 200


@dataclass(slots=True)
class LoadResult:
    """What a load met.

    Attributes:
        heard: by request, as far as time allowed.
        memory: of the server's processes.
        seconds: from the first arrival to the last answer.
        held_back: requests that had to wait because so many were in flight.
        most_in_flight: at once.
        foreign: the share of the processors that others used.
    """

    heard: list[Heard] = field(default_factory=list)
    memory: MemoryRecord = field(default_factory=MemoryRecord)
    seconds: float = 0.0
    held_back: int = 0
    most_in_flight: int = 0
    foreign: float = 0.0


async def load(
    server: TritonServer, requests: Sequence[Asked], subjects: Mapping[str, Sequence[Any]], minutes: float
) -> LoadResult:
    """Send requests as they arrive, until all are sent or the time is over, and wait for every answer.

    Args:
        server: that answers.
        requests: in the order of their arrivals.
        subjects: model → its subjects.
        minutes: after which no more are sent.
    """
    assert server.group is not None
    result = LoadResult()
    client = aio.InferenceServerClient(server.endpoints.grpc)
    expected_s = sum(one.gap_s for one in requests)
    watching = asyncio.create_task(result.memory.follow(server.group, min(expected_s, minutes * 60) / SAMPLES))
    began, foreign = time.monotonic(), Foreign(server.group)
    tasks: list[asyncio.Task[Heard]] = []
    free = asyncio.Semaphore(MOST_IN_FLIGHT)
    try:
        due_s = began
        for one in requests:
            due_s += one.gap_s
            await asyncio.sleep(max(0.0, due_s - time.monotonic()))
            if time.monotonic() - began > minutes * 60:
                break
            result.held_back += free.locked()
            await free.acquire()
            tasks.append(asyncio.create_task(_asked(client, one, subjects)))
            tasks[-1].add_done_callback(lambda _: free.release())
            result.most_in_flight = max(result.most_in_flight, sum(not task.done() for task in tasks[-200:]))
        result.heard = list(await asyncio.gather(*tasks))
    finally:
        result.seconds, result.foreign = time.monotonic() - began, foreign.share()
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching
        await client.close()
    return result


async def _asked(client: aio.InferenceServerClient, one: Asked, subjects: Mapping[str, Sequence[Any]]) -> Heard:
    tensors = request_tensors(subjects[one.model][one.subject], one.options, one.stream)
    return await ask(client, one.model, tensors, one.leaves_after, one.leaves_at_s)
