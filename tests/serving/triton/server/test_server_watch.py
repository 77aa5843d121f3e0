"""A server that hangs: while it loads a model, its silence counts for less, and counts."""

import asyncio
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from serving.triton.server import server_watch
from serving.triton.server.resource_watch import ResourceBounds
from serving.triton.server.server_watch import LOADING_PACE, ServerTroubles, ServerWatch
from serving.triton.server.wrong_models import WrongModels

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
