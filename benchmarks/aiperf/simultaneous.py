"""Both tools at the same time on one server.

alone      ours, and nobody else
ours       ours, of requests that were under way while AIPerf ran
AIPerf     its own, of the same time
"""

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median

from benchmarks.aiperf.tools import LATENCIES, StreamedLoad, Times, our_scenario, our_times_ms, run_aiperf
from benchmarks.harness.report import table
from clients.load.record import RequestRecord
from clients.load.run import run_load

AHEAD_S = 5.0
HEADS = ("ours, alone", "ours, while AIPerf runs", "AIPerf, at that time")
Round = tuple[Times, Times, Times]


async def simultaneous_round(load: StreamedLoad, scratch: Path) -> Round:
    """Milliseconds of each request: ours alone, ours while AIPerf ran, AIPerf's own."""
    seen: list[tuple[float, RequestRecord]] = []
    scenario = our_scenario(load, duration_s=120.0)
    run = asyncio.create_task(run_load(scenario, lambda one: seen.append((time.time() - one.ended_s, one))))
    await asyncio.sleep(AHEAD_S)
    called_s = time.time()
    _, records = await asyncio.to_thread(run_aiperf, load, scratch)
    run.cancel()
    with suppress(asyncio.CancelledError):
        await run
    began_s = min(began for began, _ in seen)
    from_s = min(one["metadata"]["request_start_ns"] for one in records) / 1e9
    to_s = max(one["metadata"]["request_end_ns"] for one in records) / 1e9
    at_once = [one for _, one in seen if from_s < began_s + one.sent_s and began_s + one.ended_s < to_s]
    alone = [one for _, one in seen if one.sent_s > 1.0 and began_s + one.ended_s < called_s]
    aiperf = {key: [one["metrics"][key]["value"] for one in records] for key in LATENCIES}
    return our_times_ms(alone), our_times_ms(at_once), aiperf


def report_simultaneous(rounds: Sequence[Round]) -> Iterator[str]:
    yield "Milliseconds, the median of the rounds' medians, and between which they lay.\n"
    rows = []
    for key in LATENCIES:
        columns = zip(*([median(times[key]) for times in one] for one in rounds), strict=True)
        rows.append([key, *(f"{median(one):.2f} ({min(one):.2f} to {max(one):.2f})" for one in columns)])
    yield table(["figure", *HEADS], rows)
