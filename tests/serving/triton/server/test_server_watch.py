"""A server that hangs or crashes: when it is given up, and at which model's door it is laid."""

import asyncio
import time
from math import inf
from pathlib import Path
from types import SimpleNamespace

import pytest

from attendant.errors import LateError, UnknownNameError, UnreachableError
from clients.model_control import WAITING
from clients.triton_client import TritonClient
from serving.triton.server import server_watch
from serving.triton.server.model_watch import ModelWatch
from serving.triton.server.process import TritonServer
from serving.triton.server.resource_watch import ResourceBounds
from serving.triton.server.server_log import problems_in
from serving.triton.server.server_watch import LOADING_PACE, ServerTroubles, ServerWatch
from serving.triton.server.wrong_models import WrongModels
from tests.serving.triton.server.test_process import READY_S

HANG_S = 0.5


@pytest.mark.planted
@pytest.mark.parametrize(("loading", "least_s"), [(False, HANG_S), (True, HANG_S / LOADING_PACE)])
def test_a_server_that_answers_nobody_is_ended_also_while_it_loads_a_model(monkeypatch, loading, least_s):
    monkeypatch.setattr(server_watch, "HANG_S", HANG_S)
    killed_s = []
    server = SimpleNamespace(group=0, models=(), kill=lambda: killed_s.append(time.monotonic()))
    client = SimpleNamespace(server_name=lambda: asyncio.Event().wait())

    async def scenario():
        watch = ServerWatch(server, client, ServerTroubles(), WrongModels(Path("none")), 0.5, ResourceBounds())
        watch._models = [SimpleNamespace(loading=loading)]
        return await asyncio.wait_for(watch._wait_for_hang(), 60)

    begun_s = time.monotonic()
    assert "it has neither worked nor answered for" in asyncio.run(scenario())
    assert killed_s and killed_s[0] - begun_s >= 0.9 * least_s


MINUTE_S, MOMENT_S = 60.0, 0.5
DIED_NOW = {"reason": "its worker died", "has_answered": True, "away_s": MOMENT_S, "tried_s": MINUTE_S}
MODELS = {  # times are how long ago
    "well": ({"reason": "", "has_answered": True}, False),
    "died with the server": (DIED_NOW, False),
    "died as it had just been loaded": ({**DIED_NOW, "tried_s": 2.0}, False),
    "away for long, and loaded anew": ({**DIED_NOW, "away_s": MINUTE_S, "loading": True}, True),
    "never loaded, and tried now": ({"reason": "none", "away_s": 1.0, "loading": True}, True),
    "never loaded, and just tried": ({"reason": "none", "away_s": MINUTE_S, "tried_s": 2.0}, True),
    "never loaded, in its pause": ({"reason": "none", "away_s": MINUTE_S, "tried_s": 30.0}, False),
}


@pytest.mark.planted
@pytest.mark.parametrize("has_begun", [True, False])
def test_a_crash_is_laid_at_the_door_of_what_was_being_loaded_alone(has_begun):
    now_s = time.monotonic()
    models = []
    for name, (state, _) in MODELS.items():
        known = {"loading": False, "has_answered": False, "away_s": -inf, "tried_s": inf, **state}
        times = {part: now_s - known.pop(part) for part in ("away_s", "tried_s")}
        models.append(SimpleNamespace(name=name, **known, **times))

    async def scenario():
        server, troubles = SimpleNamespace(group=0, models=()), ServerTroubles()
        watch = ServerWatch(server, None, troubles, WrongModels(Path("none")), 0.5, ResourceBounds())
        watch._models = models
        if has_begun:
            watch.has_begun.set()
        return watch._blame(), set(troubles.harmful)

    blamed, counted = asyncio.run(scenario())
    assert blamed == counted == {name for name, (_, is_blamed) in MODELS.items() if is_blamed and has_begun}


@pytest.mark.planted
def test_a_server_learns_of_each_of_its_models_before_it_loads_one(monkeypatch):
    said = []

    async def announce(name):
        await asyncio.sleep(0.1 if name == "a" else 0.0)
        said.append(f"announce {name}")

    async def load(watch, *, is_due):
        said.append(f"load {watch.name}")

    async def scenario():
        monkeypatch.setattr(ModelWatch, "begin", load)
        server = SimpleNamespace(group=0, models=("a", "b"), due=["a", "b"])
        client = SimpleNamespace(announce=announce)
        watch = ServerWatch(server, client, ServerTroubles(), WrongModels(Path("none")), 0.5, ResourceBounds())
        following = asyncio.ensure_future(watch._follow_models(lambda *_: None, (), False))
        while len(said) < 4:
            await asyncio.sleep(0.01)
        following.cancel()

    asyncio.run(asyncio.wait_for(scenario(), 60))
    assert said == ["announce b", "announce a", "load a", "load b"]


@pytest.mark.planted
def test_a_server_that_answers_after_two_seconds_answers():
    async def server_name(timeout_s=60.0):
        await asyncio.sleep(min(timeout_s, 2.0))
        if timeout_s < 2.0:
            raise LateError("an answer", "none in time", "ask again")

    async def scenario():
        server, client = SimpleNamespace(group=0, models=()), SimpleNamespace(server_name=server_name)
        watch = ServerWatch(server, client, ServerTroubles(), WrongModels(Path("none")), 0.5, ResourceBounds())
        await asyncio.wait_for(watch._wait_until_it_answers(), 60)

    asyncio.run(scenario())


def test_a_model_that_is_announced_is_away_and_not_unknown_until_it_is_loaded(settings):
    async def scenario(server):
        await server.wait_until_live(READY_S)
        async with TritonClient(server.endpoints.grpc, READY_S, admin_key=server.admin_key) as client:
            with pytest.raises(UnknownNameError):
                await client.model("double")
            await client.announce("double")
            await client.announce("nobody's")
            with pytest.raises(UnreachableError, match="has no available versions"):
                await client.model("double")
            assert WAITING in (await client.failed_models())["double"]
            await client.reload("double")
            return await client.model("double")

    server = TritonServer(settings)
    try:
        server.start(empty=True)
        assert asyncio.run(scenario(server)).name == "double"
        assert WAITING in server.log.read_text() and WAITING not in str(problems_in(server.log.read_text()))
    finally:
        server.stop()
