"""Two real Tritons behind one gateway: the less busy one is asked, and one that dies is left out until it is back."""

import asyncio
import json
import os
import signal
import time
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import httpx
import pytest

from serving.gateway.upstream.pool import FIRST_WAIT_S
from serving.gateway.upstream.server import CANARY_S
from serving.triton.server.group import living_members
from serving.triton.server.ports import free_ports
from tests.conftest import DATES, DIGITS
from tests.end_to_end.asking import PATIENCE_S, counted, page, until
from tests.end_to_end.gateways import started as gateway_before
from tests.end_to_end.servers import started
from tests.end_to_end.test_gateway import DIGIT

DATE = {"model": DATES, "input": "3rd of march 1997", "stream": True}
PROBE_S = 0.3


@pytest.fixture(scope="module")
def both(repository_of_two):
    """Two servers over the same models, one of which is started again on its own ports by whoever has killed it."""
    ports = free_ports(3)
    with ExitStack() as first, started(repository_of_two) as second:
        servers = {"first": first.enter_context(started(repository_of_two, ports)), "second": second}

        def again():
            os.killpg(servers["first"]._guard.pid, signal.SIGKILL)  # to drain it with a dead worker takes its time
            first.close()
            servers["first"] = first.enter_context(started(repository_of_two, ports))

        yield servers, again


@pytest.fixture
def running(both):
    servers, _ = both
    addresses = [server.endpoints.grpc for server in servers.values()]
    with gateway_before(*addresses, probe_s=PROBE_S, timeout_s=3.0, drain_timeout_s=5.0) as gateway:
        assert asyncio.run(until(lambda: httpx.get(f"{gateway.url}/readyz").status_code == 200))
        yield gateway


def worker_of(server, model):
    """The process of the Python backend that serves a model."""
    words = {pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in living_members(server._guard.pid)}
    (pid,) = [pid for pid, line in words.items() if b"triton_python_backend_stub" in line and model.encode() in line]
    return pid


def process_of(server):
    """The process of Triton itself."""
    words = {pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in living_members(server._guard.pid)}
    (pid,) = [pid for pid, line in words.items() if line.split(b"\0")[0].endswith(b"tritonserver")]
    return pid


def is_out(gateway, server, model):
    label = f'attendant_gateway_upstream_ejected{{model="{model}",upstream="{server.endpoints.grpc}"}} '
    (line,) = [line for line in page(f"{gateway.url}/metrics").splitlines() if line.startswith(label)]
    return line.endswith(" 1.0")


@asynccontextmanager
async def flowing(gateway, kind):
    """While four clients ask one question after another; yields a list of what each request brought."""
    brought, stopping = [], asyncio.Event()

    async def ask(client):
        while not stopping.is_set():
            brought.append(await kind(client))

    async with httpx.AsyncClient(base_url=gateway.url, timeout=PATIENCE_S) as client:
        clients = [asyncio.ensure_future(ask(client)) for _ in range(4)]
        yield brought
        stopping.set()
        await asyncio.gather(*clients)


async def classified(client):
    answer = await client.post("/v1/classify", data={"model": DIGITS}, files={"image": DIGIT})
    return answer.json()["labels"][0]["label"] if answer.status_code == 200 else answer.text


async def translated(client):
    # An answer that had begun may be cut off; one that had not must be whole.
    answer = await client.post("/v1/translate", json=DATE)
    if answer.status_code != 200:
        return answer.text
    events = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: {")]
    begun = bool(events[0].get("token_ids"))
    said = "".join(event.get("text", "") for event in events)
    return "cut" if begun and "error" in events[-1] else said


def test_both_servers_work(running, both):
    def counts():
        return [counted(server.endpoints, DIGITS, "nv_inference_count") for server in both[0].values()]

    async def asked():
        before = counts()
        async with flowing(running, classified) as brought:
            assert await until(lambda: all(now >= was + 10 for now, was in zip(counts(), before, strict=True)))
        assert set(brought) == {"3"}

    asyncio.run(asked())


@pytest.mark.parametrize(("kind", "model", "right"), [(classified, DIGITS, "3"), (translated, DATES, "1997-03-03")])
def test_a_worker_that_is_killed_loses_no_request_that_had_not_begun(running, both, kind, model, right):
    servers, again = both

    async def asked():
        async with flowing(running, kind) as brought:
            assert await until(lambda: len(brought) >= 8)
            os.kill(worker_of(servers["first"], model), signal.SIGKILL)
            assert await until(lambda: is_out(running, servers["first"], model))
            killed = len(brought)
            assert await until(lambda: len(brought) >= killed + 20)
        return brought

    brought = asyncio.run(asked())
    assert set(brought) - {"cut"} == {right} and brought.count("cut") <= 4
    assert not is_out(running, servers["second"], model)
    again()
    assert asyncio.run(until(lambda: not is_out(running, servers["first"], model)))


def test_a_server_that_is_stopped_holds_one_answer_up_for_seconds_while_another_works(both):
    servers, _ = both

    async def asked(gateway):
        async with httpx.AsyncClient(base_url=gateway.url, timeout=2 * PATIENCE_S) as client:
            took_s = []
            for _ in range(20):
                began_s = time.monotonic()
                assert await classified(client) == "3"
                took_s.append(time.monotonic() - began_s)
            assert await until(lambda: is_out(gateway, servers["first"], DIGITS), CANARY_S + 10)
            return took_s

    addresses = [server.endpoints.grpc for server in servers.values()]
    with gateway_before(*addresses, probe_s=PROBE_S, drain_timeout_s=5.0) as gateway:  # whose timeout is 30 s
        assert asyncio.run(until(lambda: httpx.get(f"{gateway.url}/readyz").status_code == 200))
        pid = process_of(servers["first"])
        os.kill(pid, signal.SIGSTOP)
        try:
            took_s = asyncio.run(asked(gateway))
        finally:
            os.kill(pid, signal.SIGCONT)
        assert max(took_s) < FIRST_WAIT_S + 5 and sum(took_s) < 2 * FIRST_WAIT_S + 10
        assert asyncio.run(until(lambda: not is_out(gateway, servers["first"], DIGITS)))


def test_a_server_that_is_killed_is_left_out_and_let_in_when_it_is_back(running, both):
    servers, again = both

    async def asked():
        async with flowing(running, classified) as brought:
            assert await until(lambda: len(brought) >= 8)
            os.killpg(servers["first"]._guard.pid, signal.SIGKILL)
            assert await until(lambda: is_out(running, servers["first"], DIGITS))
            await asyncio.to_thread(again)
            assert await until(lambda: not is_out(running, servers["first"], DIGITS))
            before = counted(servers["first"].endpoints, DIGITS, "nv_inference_count")
            assert await until(lambda: counted(servers["first"].endpoints, DIGITS, "nv_inference_count") > before + 10)
        return brought

    assert set(asyncio.run(asked())) == {"3"}
