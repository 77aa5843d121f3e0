"""Whose silence it is: a model's, or that of a server that is late."""

import asyncio
import time

import pytest

from attendant.errors import UnreachableError
from clients.triton_client import TritonClient
from serving.triton.server import model_watch
from serving.triton.server.model_watch import ModelWatch, ServerPulse
from serving.triton.server.ports import free_ports


def unanswered_for(pulse, seconds):
    """Wait for an answer that never comes, from a model of a server that is not there."""

    async def wait():
        async with TritonClient(f"127.0.0.1:{free_ports(1)[0]}") as client:
            watch = ModelWatch("odd", 0, client, print, pulse)
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
