"""When the gateway gives up what a client waits for as a whole."""

import asyncio
from types import SimpleNamespace

import pytest

from attendant.errors import DeadlineError
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
