"""When the gateway gives up what a client waits for as a whole."""

import asyncio
import gc
from types import SimpleNamespace

import pytest

from attendant.errors import CancelledError, DeadlineError
from serving.gateway import gateway
from serving.gateway.gateway import while_connected
from serving.gateway.settings import GatewaySettings


@pytest.mark.planted
def test_the_time_of_a_request_bounds_whatever_it_waits_for(monkeypatch):
    monkeypatch.setattr(gateway, "GRACE_S", 0.0)
    settings = GatewaySettings(request_timeout_s=0.05)
    state = SimpleNamespace(gateway=SimpleNamespace(settings=settings))
    ended = []

    async def receive():
        await asyncio.sleep(3600)

    async def work():
        try:
            await asyncio.sleep(3600)
        finally:
            ended.append(True)

    async def wait():
        request = SimpleNamespace(app=SimpleNamespace(state=state), receive=receive)
        async with asyncio.timeout(30):
            await while_connected(request, work())

    with pytest.raises(DeadlineError, match=r"within 0\.05 s"):
        asyncio.run(wait())
    assert ended == [True]


def test_an_answer_that_fails_as_its_client_leaves_is_heard_of_by_nobody(caplog):
    state = SimpleNamespace(gateway=SimpleNamespace(settings=GatewaySettings()))

    async def receive():
        await asyncio.sleep(0.01)
        return {"type": "http.disconnect"}

    async def work():
        try:
            await asyncio.sleep(3600)
        finally:
            raise DeadlineError("an answer", "none", "wait")

    async def wait():
        request = SimpleNamespace(app=SimpleNamespace(state=state), receive=receive)
        with pytest.raises(CancelledError):
            await while_connected(request, work())
        gc.collect()

    asyncio.run(wait())
    assert caplog.text == ""
