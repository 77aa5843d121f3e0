"""Runs rounds on real servers: traffic, then the fault, then traffic until all is well again.

Rounds share a server as long as it stands; one that ends it, or leaves it sick, is followed by a new one.
"""

import asyncio
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from benchmarks.chaos.faults import Faults, set_clock
from benchmarks.chaos.history import HistoryWriter
from benchmarks.chaos.inputs import Input
from benchmarks.chaos.repository import change_repository, copy_repository
from benchmarks.chaos.scenario import MODELS, Round, Start, Traffic
from benchmarks.chaos.served import Served
from benchmarks.chaos.traffic import GIVE_UP_S, Clients

BEFORE_S = 0.8
"""Traffic before a fault."""
AFTER_S = 0.4
"""And after everything answers again."""
POLL_S = 0.05
WARM_UP_S = 30.0


class Runner:
    """Runs rounds, one after the other, and records all of it.

    Attributes:
        skipped: round's label → why it could not be tried here.
    """

    def __init__(
        self,
        repository: Path,
        scratch: Path,
        inputs: Mapping[str, Sequence[Input]],
        traffics: Mapping[str, Traffic],
        history: HistoryWriter,
        seed: int = 0,
    ) -> None:
        self._repository, self._scratch, self._inputs, self._traffics = repository, scratch, inputs, traffics
        self._history, self._seed = history, seed
        self._served: Served | None = None
        self._watching: asyncio.Task[None] | None = None
        self._servers = 0
        self.skipped: dict[str, str] = {}
        for one in {one.name: one for several in inputs.values() for one in several}.values():
            history.record("reference", model=one.model, input=one.name, answers=one.answers)

    async def run(self, rounds: Iterable[Round], on_round: Callable[[int, Round], None]) -> None:
        """Run all of them.

        Args:
            rounds: in this order.
            on_round: called before each, with its number.
        """
        try:
            for number, one in enumerate(rounds):
                on_round(number, one)
                if reason := await asyncio.to_thread(_impossible, one.scenario.start, self._scratch):
                    self.skipped[one.label] = reason
                    continue
                await self.run_round(one, number)
        finally:
            await self.stop()

    async def run_round(self, one: Round, number: int) -> None:
        """One round, on the server that stands, or on one of its own."""
        history, expect = self._history, one.scenario.expect
        if one.own_server:
            await self.stop()
        started = True
        if self._served is None:
            history.round = -1
            started = await self._start(one)
        history.round = number
        history.record(
            "round",
            round=number,
            scenario=one.name,
            target=one.target,
            traffics={name: self._traffics[name].models for name in one.traffics},
            models=self._models_of(one),
            expect=msgspec.to_builtins(expect),
            started=started,
        )
        served = self._served
        assert served is not None
        stopping = asyncio.Event()
        clients = [self._clients(name, served, stopping) for name in one.traffics]
        sending = asyncio.gather(*(each.run() for each in clients))
        try:
            await asyncio.sleep(BEFORE_S)
            if not one.scenario.newcomers:
                stopping.set()
            injecting = asyncio.create_task(self._inject(served, one, number))
            if one.ends_server:
                well = await self._wait_for_exit(served, one)
            else:
                well = await self._wait_until_back(served, one, injecting)
            injecting.cancel()
            with suppress(asyncio.CancelledError):
                await injecting
        finally:
            stopping.set()
            await asyncio.wait_for(sending, 3 * GIVE_UP_S)
        served.sample(quiet=well)
        history.record("finished", round=number, well=well)
        if one.ends_server or not well or one.own_server:
            await self.stop()

    async def _inject(self, served: Served, one: Round, number: int) -> float:
        self._history.record("fault", round=number, phase="injected")
        await Faults(served, self._own_repository, self._clock).inject(one.scenario.faults, one.target)
        return self._history.record("fault", round=number, phase="removed")

    async def stop(self) -> None:
        """End the server that stands, if one does."""
        served, self._served = self._served, None
        if served is None:
            return
        await served.stop()
        if self._watching is not None:
            self._watching.cancel()
            with suppress(asyncio.CancelledError):
                await self._watching
        shutil.rmtree(self._own_repository, ignore_errors=True)

    @property
    def _own_repository(self) -> Path:
        return self._scratch / f"repository-{self._servers}"

    @property
    def _clock(self) -> Path:
        return self._scratch / "clock"

    async def _start(self, one: Round) -> bool:
        self._servers += 1
        copy_repository(self._repository, self._own_repository)
        if one.scenario.start.change:
            change_repository(self._own_repository, one.scenario.start.change, one.target)
        if one.scenario.start.clock:
            set_clock(self._clock, 0)
        folder = self._scratch / f"server-{self._servers}"
        self._served = Served(self._own_repository, folder, self._history, one.scenario.start, self._clock)
        started = await self._served.start()
        self._watching = asyncio.create_task(self._served.watch())
        if started:
            await self._warm_up(self._served, self._models_of(one))
            self._served.sample(quiet=True)
        return started

    async def _warm_up(self, served: Served, models: Sequence[str]) -> None:
        """Let every traffic be answered: what is loaded when it is first needed is loaded before faults are tried."""
        began, stopping = time.monotonic(), asyncio.Event()
        names = [name for name in self._traffics if set(self._traffics[name].models) <= set(models)]
        sending = asyncio.gather(*(self._clients(name, served, stopping).run() for name in names))
        pairs = {(name, model) for name in names for model in self._traffics[name].models}
        while time.monotonic() < began + WARM_UP_S and not self._answered_since(pairs, began):
            await asyncio.sleep(POLL_S)
        stopping.set()
        await asyncio.wait_for(sending, 3 * GIVE_UP_S)

    def _models_of(self, one: Round) -> list[str]:
        return [model for model in MODELS if not (one.scenario.expect.missing and model == one.target)]

    def _clients(self, name: str, served: Served, stopping: asyncio.Event) -> Clients:
        return Clients(
            name=name,
            traffic=self._traffics[name],
            inputs=self._inputs,
            history=self._history,
            grpc=served.grpc,
            gateway=served.gateway,
            seed=self._seed + self._servers,
            stopping=stopping,
        )

    def _answered_since(self, pairs: Iterable[tuple[str, str]], since: float) -> bool:
        return all(self._history.answered.get(pair, 0.0) > since for pair in pairs)

    async def _wait_for_exit(self, served: Served, one: Round) -> bool:
        until = time.monotonic() + (one.scenario.expect.exit_s or 0) + one.scenario.limit_s
        while served.ended_at is None and time.monotonic() < until:
            await asyncio.sleep(POLL_S)
        await asyncio.sleep(AFTER_S)
        return served.ended_at is not None

    async def _wait_until_back(self, served: Served, one: Round, injecting: asyncio.Task[float]) -> bool:
        began, models = time.monotonic(), set(self._models_of(one))
        pairs = {(name, model) for name in one.traffics for model in self._traffics[name].models if model in models}
        while time.monotonic() < began + one.scenario.limit_s and served.ended_at is None:
            lasted = time.monotonic() > began + one.scenario.lasts_s
            if lasted and injecting.done() and self._answered_since(pairs, injecting.result()):
                await asyncio.sleep(AFTER_S)
                return True
            await asyncio.sleep(POLL_S)
        return False


def _impossible(start: Start, scratch: Path) -> str:
    """Why a start cannot be had on this machine; empty if it can."""
    if start.clock:
        source = Path(__file__).with_name("clock.c")
        scratch.mkdir(parents=True, exist_ok=True)
        words = ["gcc", "-shared", "-fPIC", "-O1", "-o", str(scratch / "clock.so"), str(source), "-ldl"]
        return "" if _runs(words) else "no gcc, which makes the library that sets the clock"
    if start.disk_mb:
        words = ["unshare", "-U", "-r", "-m", "mount", "-t", "tmpfs", "-o", "size=1m", "none", "/mnt"]
        return "" if _runs(words) or _runs([*words[:1], *words[3:]]) else "no right to mount a file system"
    return ""


def _runs(words: Sequence[str]) -> bool:
    try:
        return subprocess.run(words, capture_output=True, timeout=60).returncode == 0
    except OSError:
        return False
