"""What is done to a server under test: one function for each kind of action, which ends when the fault is over.

signal      sends ``signal`` to each process; ``times`` over, each time once there is a new one
pause       stops it for some seconds
slow        stops it most of the time, for some seconds: ``amount`` is the share that it runs
limit       takes ``kind`` away from it (AS: memory, NOFILE: descriptors, FSIZE: files), for some seconds
fill        fills its temporary folder (``kind`` tmp) or its shared memory (shm), for some seconds
clock       sets its clock by ``amount`` seconds, and back after some seconds
clients     lets ``count`` clients of a kind loose that behave badly (benchmarks/chaos/bad_clients.py), and kills them
repository  adds an artefact to the repository, cuts one, or removes it
"""

import asyncio
import os
import resource
import signal
import struct
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from benchmarks.chaos.processes import ServerProcess
from benchmarks.chaos.repository import change_repository
from benchmarks.chaos.scenario import Action
from benchmarks.chaos.served import Served
from benchmarks.harness.machine import ROOT

REBORN_S = 20.0
BEGUN_S = 60.0
SLICE_S = 0.1
MB = 1e6


class Faults:
    """Does to one server what scenarios say.

    Attributes:
        skipped: why a fault could not be tried on this machine; empty if it could.
    """

    def __init__(self, served: Served, repository: Path, clock: Path) -> None:
        self._served, self._repository, self._clock = served, repository, clock
        self.skipped = ""

    async def inject(self, actions: tuple[Action, ...], target: str) -> None:
        """Do all of them at their times; returns when every one is over."""
        await asyncio.gather(*(self._act(action, action.model or target) for action in actions))

    async def _act(self, action: Action, target: str) -> None:
        await asyncio.sleep(action.after_s)
        actions: dict[str, Callable[[Action, str], Awaitable[None]]] = {
            "signal": self._signal,
            "pause": self._pause,
            "slow": self._slow,
            "limit": self._limit,
            "fill": self._fill,
            "clock": self._set_clock,
            "clients": self._let_clients_loose,
            "repository": self._change_repository,
        }
        await actions[action.do](action, target)

    def _find(self, action: Action, target: str) -> list[ServerProcess]:
        if action.process == "worker":
            return self._served.find(self._served.role_of_worker(target), target)
        return self._served.find(action.process, target if action.process == "stub" else "")

    async def _signal(self, action: Action, target: str) -> None:
        known = set[int]()
        for number in range(action.times):
            until = time.monotonic() + REBORN_S
            while not (found := [one for one in self._find(action, target) if one.pid not in known]):
                if time.monotonic() > until:
                    return
                await asyncio.sleep(SLICE_S)
            for one in found:
                _send(one, signal.Signals[f"SIG{action.signal}"])
            if action.process != "serve":  # which is the same, and may be signalled again
                known |= {one.pid for one in found}
            await asyncio.sleep(action.every_s if number + 1 < action.times else 0)

    async def _pause(self, action: Action, target: str) -> None:
        found = self._find(action, target)
        for one in found:
            _send(one, signal.SIGSTOP)
        await asyncio.sleep(action.seconds)
        for one in found:
            _send(one, signal.SIGCONT)

    async def _slow(self, action: Action, target: str) -> None:
        found, until = self._find(action, target), time.monotonic() + action.seconds
        while time.monotonic() < until:
            for stop, share in ((signal.SIGSTOP, 1 - action.amount), (signal.SIGCONT, action.amount)):
                for one in found:
                    _send(one, stop)
                await asyncio.sleep(SLICE_S * share)

    async def _limit(self, action: Action, target: str) -> None:
        kind = getattr(resource, f"RLIMIT_{action.kind}")
        before = {}
        for one in self._find(action, target):
            with suppress(ProcessLookupError):
                before[one] = resource.prlimit(one.pid, kind)
                soft = {"AS": _address_bytes(one) + action.amount * MB, "NOFILE": one.descriptors + action.amount}
                resource.prlimit(one.pid, kind, (int(soft.get(action.kind, action.amount * MB)), before[one][1]))
        await asyncio.sleep(action.seconds)
        for one, limits in before.items():
            if one.is_alive:
                with suppress(ProcessLookupError):
                    resource.prlimit(one.pid, kind, limits)

    async def _fill(self, action: Action, target: str) -> None:
        inside = Path(f"/proc/{self._served.pid}/root")
        folder = Path("/dev/shm") if action.kind == "shm" else self._served.scratch  # noqa: S108  the kernel's own place  # nosec B108
        place = inside / folder.relative_to("/") / "filled"
        with suppress(OSError), place.open("wb", buffering=0) as file:
            while file.write(bytes(1 << 16)):
                pass
        await asyncio.sleep(action.seconds)
        place.unlink(missing_ok=True)

    async def _set_clock(self, action: Action, target: str) -> None:
        set_clock(self._clock, int(action.amount))
        await asyncio.sleep(action.seconds)
        set_clock(self._clock, 0)

    async def _let_clients_loose(self, action: Action, target: str) -> None:
        for _ in range(action.times):
            words = [action.kind, str(action.count), self._served.grpc, self._served.gateway, target]
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "benchmarks.chaos.bad_clients", *words),
                cwd=ROOT,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
            )
            assert process.stdout is not None
            try:
                await asyncio.wait_for(process.stdout.readline(), BEGUN_S)  # it says when it has begun
                await asyncio.sleep(action.seconds)
            finally:
                if process.returncode is None:
                    process.kill()
                await process.wait()

    async def _change_repository(self, action: Action, target: str) -> None:
        change_repository(self._repository, action.kind, target)
        await asyncio.sleep(action.seconds)


def set_clock(path: Path, seconds: int) -> None:
    """By how much the clock of servers that read this file differs from the machine's."""
    with path.open("r+b" if path.exists() else "w+b") as file:
        file.write(struct.pack("q", seconds))


def _send(process: ServerProcess, number: signal.Signals) -> None:
    if process.is_alive:
        with suppress(ProcessLookupError):
            os.kill(process.pid, number)


def _address_bytes(process: ServerProcess) -> int:
    with suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{process.pid}/statm").read_text().split()[0]) * resource.getpagesize()
    return 0
