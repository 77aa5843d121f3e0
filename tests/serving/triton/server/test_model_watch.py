"""A look that fails, whose silence it is, and a worker that is stopped: for good, or by turns."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
from tritonclient.grpc import service_pb2

from attendant.engine_health import EngineHealth
from attendant.errors import UnreachableError
from attendant.tensor_names import TEXT_OUTPUT
from clients.canary import CanaryResult
from clients.served_model import ServedModel
from clients.triton_client import TritonClient
from serving.processes import ProcessRecord, process_of
from serving.triton.server import life_signs, model_watch
from serving.triton.server.life_signs import AT_ONCE, HangError, LifeSigns, ServerPulse
from serving.triton.server.model_watch import ModelWatch
from serving.triton.server.ports import free_ports
from serving.triton.server.wrong_models import WrongModels
from tests.serving.gateway.fake_triton import FakeTriton, config_of, floats, listening

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
        watch._served, watch.reason, client.odd = SERVED, "", True
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
            watch._signs.is_asked = True
            await asyncio.wait_for(watch._while_alive(asyncio.Event().wait()), seconds)

    asyncio.run(wait())


class BusyClient(OddClient):
    """Of a model that never answers its example; others it does, as long as it ``moves``."""

    moves, counted = True, 0

    async def server_name(self, timeout_s):
        return "triton"

    async def usage(self, name):
        self.counted += self.moves
        return self.counted, 0, 0


def test_a_model_whose_example_waits_behind_others_is_silent_only_once_it_answers_nobody(monkeypatch):
    monkeypatch.setattr(life_signs, "LONGEST_STEP_S", 0.5)
    client = BusyClient()

    async def wait(seconds):
        watch = ModelWatch("odd", 0, client, print, ServerPulse(), WrongModels(Path("none")))
        watch._signs.is_asked = True
        monkeypatch.setattr(watch._signs._meter, "share", lambda workers, passed_s: 1.0)  # it works
        await asyncio.wait_for(watch._while_alive(asyncio.Event().wait()), seconds)

    with pytest.raises(TimeoutError):
        asyncio.run(wait(2.5))
    client.moves = False
    client.counted = 0
    with pytest.raises(HangError, match="neither worked nor answered for 0"):
        asyncio.run(wait(60.0))


class EndlessClient(OddClient):
    """Of a server that never ends loading what it begins to load."""

    def __init__(self):
        self.begun = list[str]()

    async def reload(self, name):
        self.begun.append(name)
        await asyncio.Event().wait()

    async def unload(self, name):
        pass


def test_models_that_are_never_loaded_keep_one_away_for_a_while_and_one_that_was_served_not_at_all(monkeypatch):
    monkeypatch.setattr(model_watch, "unfit", lambda folder: "")
    monkeypatch.setattr(life_signs, "PLACE_S", 1.0)
    client, pulse = EndlessClient(), ServerPulse()

    def loaded_anew(name, was_served):
        watch = ModelWatch(name, 0, client, lambda line: None, pulse, WrongModels(Path("none")))
        watch.reason, watch._was_served = "its worker died", was_served
        return asyncio.ensure_future(watch._restart())

    async def begun(count):
        async with asyncio.timeout(60):
            while len(client.begun) < count:
                await asyncio.sleep(0.01)
        return client.begun

    async def scenario():
        loads = [loaded_anew(f"newcomer {number}", False) for number in range(AT_ONCE + 1)]
        began_s = time.monotonic()
        assert len(await begun(AT_ONCE)) == AT_ONCE
        loads.append(loaded_anew("known", True))
        assert (await begun(AT_ONCE + 1))[AT_ONCE:] == ["known"]
        assert (await begun(AT_ONCE + 2))[-1] == f"newcomer {AT_ONCE}" and time.monotonic() - began_s >= 0.9
        for load in loads:
            load.cancel()

    asyncio.run(scenario())


def test_a_place_is_left_once_also_by_one_that_was_late(monkeypatch):
    monkeypatch.setattr(life_signs, "PLACE_S", 0.2)
    pulse, now, most = ServerPulse(), [], []

    async def load(seconds):
        async with pulse.place():
            now.append(seconds)
            most.append(len(now))
            await asyncio.sleep(seconds)
            now.remove(seconds)

    async def scenario():
        await asyncio.gather(*(load(1.0) for _ in range(2 * AT_ONCE)))
        assert max(most) > AT_ONCE
        most.clear()
        await asyncio.gather(*(load(0.01) for _ in range(5 * AT_ONCE)))
        assert max(most) == AT_ONCE

    asyncio.run(scenario())


@pytest.mark.parametrize(("ago_s", "times"), [(25.0, 0), (35.0, 1)])
def test_what_an_example_took_behind_others_keeps_no_idle_model_from_being_asked(monkeypatch, ago_s, times):
    asked = []

    async def check(client, model, though_busy):
        asked.append(model)
        return CanaryResult(found="", right=True)

    monkeypatch.setattr(model_watch, "check_answer", check)

    async def look():
        watch = ModelWatch("odd", 0, OddClient(), print, ServerPulse(), WrongModels(Path("none")))
        watch._served, watch._described_s = replace(SERVED, instances=2), time.monotonic()
        watch._canary_s, watch._canary_took_s = time.monotonic() - ago_s, 1000.0
        return await watch._look()

    assert asyncio.run(look()) == "" and len(asked) == times


def test_the_quickest_answer_to_an_example_says_how_often_it_may_be_asked(monkeypatch):
    takes_s = iter([0.05, 0.6, 0.01])

    async def check(client, model, though_busy):
        await asyncio.sleep(next(takes_s))
        return CanaryResult(found="", right=True)

    monkeypatch.setattr(model_watch, "check_answer", check)

    async def look():
        watch = ModelWatch("odd", 0, OddClient(), print, ServerPulse(), WrongModels(Path("none")))
        watch._served = replace(SERVED, instances=2)
        found = []
        for _ in range(3):
            assert await watch._answer_example() == ""
            found.append(watch._canary_took_s)
        return found

    first, second, third = asyncio.run(look())
    assert first == second and third < second


class Reloaded(FakeTriton):
    """Its model takes some time for each answer."""

    loads = 0

    async def infer(self, request):
        await asyncio.sleep(3 * life_signs.TICK_S)
        return self.answer

    async def RepositoryIndex(self, request, context):  # noqa: N802  gRPC names it
        return service_pb2.RepositoryIndexResponse()

    async def ServerMetadata(self, request, context):  # noqa: N802  gRPC names it
        return service_pb2.ServerMetadataResponse(name="triton")

    async def RepositoryModelUnload(self, request, context):  # noqa: N802  gRPC names it
        return service_pb2.RepositoryModelUnloadResponse()

    async def RepositoryModelLoad(self, request, context):  # noqa: N802  gRPC names it
        self.loads += 1
        return service_pb2.RepositoryModelLoadResponse()


@pytest.mark.planted
def test_a_new_worker_is_not_judged_by_the_silence_of_the_one_before(monkeypatch):
    """Else it is killed in its turn, for ever, unless it answers its example at once."""
    monkeypatch.setattr(model_watch, "unfit", lambda folder: "")
    server = Reloaded(config_of("m", "predict", [("x", (2,))], [("y", (2,))], 4), answer={"y": floats([[1, 2]])})
    reports = list[str]()

    async def restart():
        async with listening(server) as address, TritonClient(address) as client:
            watch = ModelWatch("m", 0, client, reports.append, ServerPulse(time.monotonic()), WrongModels(Path("none")))
            await watch.check()
            assert watch.reason == ""
            watch._signs.is_asked = True
            watch._signs._silent_s = watch._signs._still_s = 1000.0
            with pytest.raises(HangError):
                await watch._while_alive(asyncio.Event().wait())
            watch.reason = "it hangs"
            await watch._restart()

    asyncio.run(asyncio.wait_for(restart(), 60))
    assert server.loads == 1, reports


@pytest.mark.planted
def test_a_silence_counts_only_while_the_server_itself_answers(monkeypatch):
    monkeypatch.setattr(life_signs, "HANG_S", 0.5)
    with pytest.raises(UnreachableError):  # it looks whether the server is there before it blames the model
        unanswered_for(ServerPulse(), 60.0)
    with pytest.raises(TimeoutError):
        unanswered_for(ServerPulse(time.monotonic() - 2 * life_signs.PROMPT_S), 2.0)


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
                watch._signs = LifeSigns([kind(pid=record.pid, started=record.started)], ServerPulse())
                await asyncio.wait_for(watch._while_alive(asyncio.Event().wait()), 4 * life_signs.STOPPED_S)

        try:
            with pytest.raises(expected):
                asyncio.run(wait())
        finally:
            process.kill()
