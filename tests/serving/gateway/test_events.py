import asyncio
import gc
import json
from types import SimpleNamespace

import pytest

from attendant.errors import CancelledError, InputError
from serving.gateway import events
from serving.gateway.events import event, event_stream

ENDS = "\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"


@pytest.mark.parametrize("text", [f"a{end}b" for end in ENDS] + [ENDS, "é\u0085\\u2028"])
def test_an_event_is_one_line_for_whoever_splits_lines_as_python_does(text):
    line, rest = event({"text": text}).decode().splitlines()
    assert json.loads(line.removeprefix("data: ")) == {"text": text} and rest == ""


def test_what_is_no_number_is_null():
    assert event({"a": float("nan")}) == b'data: {"a":null}\n\n'


def test_a_stream_that_waits_for_its_model_is_heard_of_within_the_five_seconds_of_the_contract(monkeypatch):
    assert events.ALIVE_S < 5
    monkeypatch.setattr(events, "HEADERS_AFTER_S", 0.01)
    monkeypatch.setattr(events, "ALIVE_S", 0.02)
    said = asyncio.Event()

    async def late():
        await said.wait()
        yield event({"text": "a"})

    async def read():
        response = await event_stream(Connected(), late())
        parts = [await anext(response.body_iterator) for _ in range(3)]
        said.set()
        return parts, [part async for part in response.body_iterator]

    waited, rest = asyncio.run(read())
    assert set(waited) == {b": waiting\n\n"} and b"".join(rest).endswith(event({"text": "a"}) + events.DONE)


def test_a_stream_whose_call_is_cancelled_by_its_connection_ends_with_an_error():
    async def cut():
        yield event({"text": "a"})
        raise asyncio.CancelledError("Locally cancelled by application!")

    request = Connected()

    async def read():
        response = await event_stream(request, cut())
        return b"".join([part async for part in response.body_iterator])

    first, error, done = asyncio.run(read()).split(b"\n\n")[:3]
    assert first == b'data: {"text":"a"}' and json.loads(error.removeprefix(b"data: "))["error"]["code"]
    assert request.state.stream_error == "server_unreachable", "which the log and the metrics say"
    assert done + b"\n\n" == events.DONE


class Connected:
    """A request whose client waits."""

    url = SimpleNamespace(path="/v1/completions")

    def __init__(self):
        self.state = SimpleNamespace()

    async def receive(self):
        await asyncio.sleep(60)


class Leaving(Connected):
    """One whose client is gone."""

    async def receive(self):
        return {"type": "http.disconnect"}


@pytest.mark.planted
def test_a_refusal_that_nobody_waits_for_any_more_is_no_traceback():
    told = []

    async def refused():
        raise InputError("max_tokens from 1 to 15", "20", "ask for fewer")
        yield b""

    async def leave():
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context))
        with pytest.raises(CancelledError):
            await event_stream(Leaving(), refused())
        gc.collect()
        await asyncio.sleep(0)

    asyncio.run(leave())
    assert told == []


@pytest.mark.parametrize("reads", [True, False])
def test_large_events_that_come_at_once_are_too_many_only_for_who_does_not_read(reads):
    large = b"data: " + b"a" * events.UNREAD_BYTES + b"\n\n"

    async def at_once():
        for _ in range(5):
            yield large

    async def read():
        response = await event_stream(Connected(), at_once())
        parts = [await anext(response.body_iterator)]
        if not reads:
            await asyncio.sleep(0.05)
        return b"".join(parts + [part async for part in response.body_iterator])

    found = asyncio.run(read())
    assert (found == 5 * large + events.DONE) == reads
    assert (b"bytes unread" in found) != reads
