"""What the server counted during a run, read where Prometheus reads it, before and after."""

from __future__ import annotations

import asyncio
import re
import urllib.request
from collections.abc import Callable, Mapping
from http.client import HTTPException
from itertools import count
from math import isfinite

from attendant.errors import UnreachableError
from clients.load.record import ServerCounts
from clients.load.scenario import Scenario

TIMEOUT_S = 5.0
MOST_BYTES = 1 << 26
"""Of the page; what stands behind them is not read."""
MOST_CHARACTERS = 4096
"""Of a line; a longer one is none of ours."""
LATEST_S, EVERY_S = 5.0, 0.6
"""Requests are counted after their answers, by engines in batches: how long that is waited for, and how often."""
_LINE = re.compile(r'^(\w+)\{[^}]*?\bmodel="([^"]*)"([^}]*)\} (\S+)$')
_REASON = re.compile(r'finished_reason="(\w+)"')
_MICROSECONDS = 1e-6
_DIRECTLY = urllib.request.build_opener(urllib.request.ProxyHandler({}))
_COMPUTE = ("input", "infer", "output")
Counts = Mapping[str, float]


class ServerCounter:
    """The counters of a scenario's models."""

    def __init__(self, address: str, models: set[str], before: Counts) -> None:
        self._address, self._models, self._before = address, models, before

    @classmethod
    async def start(cls, scenario: Scenario) -> ServerCounter:
        """Read them; where the scenario names no address, nothing is read.

        Raises:
            UnreachableError: nothing answers there.
        """
        models = {workload.model for workload in scenario.workloads}
        address = scenario.target.metrics
        return cls(address, models, await _read(address, models) if address else {})

    async def stop(self, expected: int) -> ServerCounts | None:
        """What they have increase by, once as many requests are counted as were sent, or no more seem to come.

        Args:
            expected: how many were sent.

        Raises:
            UnreachableError: nothing answers any more.
        """
        if not self._address:
            return None
        last: Counts = {}
        for turn in count(1):
            after = await _read(self._address, self._models)
            found = _to_counts({name: value - self._before.get(name, 0.0) for name, value in after.items()})
            is_all = found.requests + found.failures >= expected and after == last
            if is_all or turn * EVERY_S > LATEST_S:
                break
            last = after
            await asyncio.sleep(EVERY_S)
        return found


def counters_of(page: str, is_included: Callable[[str], bool]) -> dict[str, float]:
    """The counters on a page of Prometheus' text format, added over the models that are included, histograms left out.

    A counter of requests by how they ended is one for each: ``attendant_requests_total{cancelled}``.
    """
    found: dict[str, float] = {}
    for line in page.splitlines():
        match = _LINE.match(line) if len(line) < MOST_CHARACTERS else None
        if (
            match
            and isfinite(float(match[4]))
            and is_included(match[2])
            and 'le="' not in match[3]
            and "le=" not in line
        ):
            reason = _REASON.search(line)
            name = f"{match[1]}{{{reason[1]}}}" if reason else match[1]
            found[name] = found.get(name, 0.0) + float(match[4])
    return found


def _to_counts(increase: Counts) -> ServerCounts:
    compute = sum(increase.get(f"nv_inference_compute_{part}_duration_us", 0.0) for part in _COMPUTE)
    return ServerCounts(
        requests=round(increase.get("nv_inference_request_success", 0)),
        failures=round(increase.get("nv_inference_request_failure", 0)),
        queue_s=increase.get("nv_inference_queue_duration_us", 0.0) * _MICROSECONDS,
        compute_s=compute * _MICROSECONDS,
        other={
            name: value
            for name, value in increase.items()
            if name.partition("{")[0].endswith(("_total", "_sum", "_count"))
        },
    )


async def _read(address: str, models: set[str]) -> Counts:
    def page() -> str:
        with _DIRECTLY.open(f"http://{address}/metrics", timeout=TIMEOUT_S) as answer:
            return str(answer.read(MOST_BYTES).decode(errors="replace"))

    try:
        return counters_of(await asyncio.to_thread(page), models.__contains__)
    except (OSError, HTTPException, ValueError) as error:
        raise UnreachableError(f"metrics at {address}", str(error), "correct target.metrics") from error
