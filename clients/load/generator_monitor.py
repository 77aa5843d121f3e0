"""The load of the generator itself: its processor time, the whole machine's, and how late its event loop wakes up."""

import asyncio
import os
import sys
import time
from contextlib import suppress
from pathlib import Path

from clients.load.record import GeneratorUsage
from clients.load.timer import Timer

EVERY_S = 0.01
_STAT = Path("/proc/stat")


class GeneratorMonitor:
    """Samples from its creation until it is stopped, in a running event loop."""

    def __init__(self) -> None:
        self._lags_s: list[float] = []
        self._timer = Timer()
        self._began_s, self._processor_s = time.monotonic(), time.process_time()
        self._machine_s = _read_machine_s()
        self._sampling = asyncio.create_task(self._sample())

    async def stop(self) -> GeneratorUsage:
        """Stop, and return what was seen."""
        seconds = time.monotonic() - self._began_s
        self._sampling.cancel()
        with suppress(asyncio.CancelledError):
            await self._sampling
        self._timer.close()
        machine_s = _read_machine_s() - self._machine_s
        return GeneratorUsage(
            cpu_share=(time.process_time() - self._processor_s) / seconds,
            loop_lags_s=tuple(self._lags_s),
            machine_share=min(1.0, machine_s / (seconds * (os.cpu_count() or 1))),
        )

    async def _sample(self) -> None:
        due_s = time.monotonic() + EVERY_S
        while True:
            await self._timer.until(due_s)
            now_s = time.monotonic()
            self._lags_s.append(max(0.0, now_s - due_s))
            due_s = max(due_s, now_s) + EVERY_S


def _read_machine_s() -> float:
    if sys.platform != "linux":
        return 0.0
    user, nice, system, _idle, _wait, *rest = map(int, _STAT.read_text().split("\n", 1)[0].split()[1:])
    return (user + nice + system + sum(rest[:3])) / os.sysconf("SC_CLK_TCK")  # interrupts; stolen time
