"""A look that fails, whose silence it is, and a worker that is stopped: for good, or by turns."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import numpy as np
import pytest

from attendant.engine_health import EngineHealth
from attendant.errors import UnreachableError
from attendant.tensor_names import TEXT_OUTPUT
from clients.served_model import ServedModel
from clients.triton_client import TritonClient
from serving.processes import ProcessRecord, process_of
from serving.triton.server import model_watch
from serving.triton.server.model_watch import HangError, ModelWatch, ServerPulse
from serving.triton.server.ports import free_ports
from serving.triton.server.wrong_models import WrongModels

BUSY = EngineHealth(alive=True, running=1, waiting=0, steps=1, stalled_s=0.0)
SERVED = ServedModel(
    name="odd",
    decoupled=True,
    max_batch=0,
    inputs={},
    outputs={},
    dtypes={},
    parameters={"task": "generate"},
    instances=1,
)


class OddClient:
    """Of an engine that is at work; while ``odd``, its next stream ends in a way that nobody thought of."""

    streams, odd = 0, False

    async def failed_models(self):
        return {}

    async def model(self, name):
        return SERVED

    async def usage(self, name):
        return self.streams, 0, 0

    async def stream(self, *args, **kwargs):
        self.streams += 1
        if self.odd:
            self.odd = False
            raise IndexError("list index out of range")
        yield {TEXT_OUTPUT: np.array([[msgspec.json.encode(BUSY)]], dtype=object)}


def test_a_look_that_fails_by_a_mistake_of_ours_is_reported_and_the_watch_goes_on(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(model_watch, "CANARY_S", 0.01)
    client, reports = OddClient(), list[str]()

    async def scenario() -> None:
        watch = ModelWatch("odd", 0, client, reports.append, ServerPulse(), WrongModels(Path("none")))
        watch._served, client.odd = SERVED, True
        watching = asyncio.ensure_future(watch.watch(0.01))
        while client.streams < 3 and not watching.done():
            await asyncio.sleep(0.01)
        assert not watching.done()
        watching.cancel()

    asyncio.run(asyncio.wait_for(scenario(), 60))
    assert reports == ["a look at odd failed: IndexError('list index out of range')"]


def unanswered_for(pulse, seconds):
    """Wait for an answer that never comes, from a model of a server that is not there."""

    async def wait():
        async with TritonClient(f"127.0.0.1:{free_ports(1)[0]}") as client:
            watch = ModelWatch("odd", 0, client, print, pulse, WrongModels(Path("none")))
            watch._unanswered = True
            await asyncio.wait_for(watch._while_alive(asyncio.Event().wait()), seconds)

    asyncio.run(wait())


@pytest.mark.planted
def test_a_silence_counts_only_while_the_server_itself_answers(monkeypatch):
    monkeypatch.setattr(model_watch, "HANG_S", 0.5)
    with pytest.raises(UnreachableError):  # it looks whether the server is there before it blames the model
        unanswered_for(ServerPulse(), 60.0)
    with pytest.raises(TimeoutError):
        unanswered_for(ServerPulse(time.monotonic() - 2 * model_watch.PROMPT_S), 2.0)


class Stopped(ProcessRecord):
    """Of a process that was stopped, and is seen so at each look."""


class StoppedByTurns(ProcessRecord):
    """Of one that goes on between the looks, each of which meets it while it is stopped."""

    @property
    def is_stopped(self):
        before, until_s = self.switches, time.monotonic() + 30.0
        os.kill(self.pid, signal.SIGCONT)
        while self.switches == before:
            assert time.monotonic() < until_s, "it goes on"
            time.sleep(0.001)
        os.kill(self.pid, signal.SIGSTOP)
        while not ProcessRecord.is_stopped.fget(self):
            assert time.monotonic() < until_s, "it stops"
            time.sleep(0.001)
        return True


@pytest.mark.parametrize(("kind", "expected"), [(Stopped, HangError), (StoppedByTurns, TimeoutError)])
def test_a_worker_that_goes_on_between_two_looks_is_not_taken_for_stopped(kind, expected):
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        record = process_of(process.pid)
        os.kill(process.pid, signal.SIGSTOP)

        async def wait():
            async with TritonClient(f"127.0.0.1:{free_ports(1)[0]}") as client:
                watch = ModelWatch("odd", 0, client, print, ServerPulse(), WrongModels(Path("none")))
                watch._workers = [kind(pid=record.pid, started=record.started)]
                await asyncio.wait_for(watch._while_alive(asyncio.Event().wait()), 4 * model_watch.STOPPED_S)

        try:
            with pytest.raises(expected):
                asyncio.run(wait())
        finally:
            process.kill()
