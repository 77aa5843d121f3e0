"""Whom the pool asks, of servers that do not say whether they have a model."""

import asyncio
import gc
import tracemalloc
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from attendant.errors import ServerError, UnknownNameError, UnreachableError
from clients.served_model import ServedModel
from serving.gateway.routes.health import readiness
from serving.gateway.upstream import pool as pools
from serving.gateway.upstream import server as servers
from serving.gateway.upstream.pool import Pool
from serving.gateway.upstream.server import FAILURES as FAILURES_TO_EJECT
from tests.serving.gateway.fake_triton import FakeTriton, config_of, gateway_of

NAME = "stdlib-lm"
MODEL = ServedModel(name=NAME, decoupled=True, max_batch=1, inputs={}, outputs={}, dtypes={}, parameters={})
SOON_S = 5.0


class Client:
    """Answers every question about a model by what it is given; None is silence."""

    is_connected = True

    def __init__(self, answer):
        self.answer = answer

    async def model(self, name):
        if self.answer is None:
            await asyncio.sleep(3600)
        if isinstance(self.answer, Exception):
            raise self.answer.with_traceback(None)
        return self.answer


@asynccontextmanager
async def pool_of(*answers):
    pool = Pool(tuple(f"127.0.0.1:{9 + number}" for number in range(len(answers))), timeout_s=30.0, probe_s=60.0)
    for upstream, answer in zip(pool.upstreams, answers, strict=True):
        await upstream.client.__aexit__(None, None, None)
        upstream.client = Client(answer)
    yield pool


async def say(upstream, model):
    return upstream.address


async def stream(upstream, model):
    yield upstream.address


async def read(pool):
    streams = [[delta async for delta in pool.stream(NAME, stream)] for _ in range(2)]
    return [*streams[0], *streams[1], await pool.once(NAME, say)]


FAILURES = {
    "silent": None,
    "foreign": ServerError("an answer", "StatusCode.UNIMPLEMENTED", "look at it"),
    "gone": UnreachableError("a server", "no answer", "start it"),
}


@pytest.mark.planted
@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
def test_a_server_that_does_not_say_whether_it_has_a_model_holds_up_nothing_of_one_that_has(failure):
    async def ask():
        async with pool_of(failure, MODEL) as pool:
            pool.upstreams[1].models = {NAME: MODEL}
            async with asyncio.timeout(SOON_S):
                assert set(await read(pool)) == {pool.upstreams[1].address}

    asyncio.run(ask())


@pytest.mark.planted
@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
def test_where_none_is_known_to_have_a_model_the_next_is_asked_soon(failure, monkeypatch):
    monkeypatch.setattr(pools, "FIRST_WAIT_S", 0.1)

    async def ask():
        for place in range(2):
            answers = [MODEL, MODEL]
            answers[place] = failure
            async with pool_of(*answers) as pool, asyncio.timeout(SOON_S):
                assert set(await read(pool)) == {pool.upstreams[1 - place].address}

    asyncio.run(ask())


@pytest.mark.planted
def test_a_server_that_was_away_is_asked_anew_what_it_has_before_it_is_asked_for_an_answer():
    gone, after = FAILURES["gone"], replace(MODEL, max_batch=8)

    async def fail(upstream, model):
        raise gone.with_traceback(None)

    async def seen(upstream, model):
        return model.max_batch

    async def stream_of(upstream, model):
        yield model.max_batch

    async def ask():
        for is_streamed in (False, True):
            async with pool_of(MODEL) as pool:
                assert await pool.once(NAME, seen) == 1
                with pytest.raises(UnreachableError):
                    await pool.once(NAME, fail)
                pool.upstreams[0].client = Client(after)
                found = [one async for one in pool.stream(NAME, stream_of)] if is_streamed else []
                assert found == [8] * is_streamed and await pool.once(NAME, seen) == 8
                pool.upstreams[0].client = Client(gone)  # which is asked no more
                assert await pool.once(NAME, seen) == 8

    asyncio.run(ask())


@pytest.mark.planted
def test_a_server_whose_connection_broke_is_asked_anew_though_no_request_failed():
    async def seen(upstream, model):
        return model.max_batch

    async def ask():
        async with pool_of(MODEL) as pool:
            assert await pool.once(NAME, seen) == 1
            pool.upstreams[0].client = Client(replace(MODEL, max_batch=8))
            assert await pool.once(NAME, seen) == 1
            pool.upstreams[0].client.is_connected = False
            assert await pool.once(NAME, seen) == 8

    asyncio.run(ask())


@pytest.mark.planted
def test_a_server_that_is_asked_anew_and_silent_holds_up_no_stream_that_another_answers(monkeypatch):
    monkeypatch.setattr(pools, "FIRST_WAIT_S", 0.1)

    async def ask():
        async with pool_of(MODEL, MODEL) as pool:
            for upstream in pool.upstreams:
                await upstream.model(NAME)
            pool.upstreams[0].client = Client(None)
            pool.upstreams[0].client.is_connected = False
            async with asyncio.timeout(SOON_S):
                assert set(await read(pool)) == {pool.upstreams[1].address}

    asyncio.run(ask())


@pytest.mark.planted
def test_a_look_at_a_model_is_no_answer_of_its_server():
    error = ServerError("an answer", "none", "look at it")

    async def fail(upstream, model):
        raise error.with_traceback(None)

    async def ask():
        async with pool_of(MODEL) as pool:
            for _ in range(FAILURES_TO_EJECT):
                with pytest.raises(ServerError):
                    await pool.once(NAME, fail)
                assert await pool.model(NAME) == MODEL
            assert pool.upstreams[0].is_ejected(NAME)

    asyncio.run(ask())


@pytest.mark.planted
def test_a_name_that_no_server_knows_leaves_nothing_behind():
    unknown = UnknownNameError("a model", "another", "name another")

    async def ask(pool, name):
        with pytest.raises(UnknownNameError), pool.hold_places(name, 1):
            _ = [delta async for delta in pool.stream(name, stream)]
        with pytest.raises(UnknownNameError):
            await pool.once(name, say)

    async def ask_many():
        async with pool_of(unknown) as pool:
            await ask(pool, "first")
            tracemalloc.start()
            try:
                before = tracemalloc.get_traced_memory()[0]
                for number in range(300):
                    await ask(pool, f"{number:>0256}")
                gc.collect()  # of errors with their frames, which stay until then
                assert tracemalloc.get_traced_memory()[0] - before < 64 << 10
            finally:
                tracemalloc.stop()

    asyncio.run(ask_many())


def test_a_name_of_which_triton_reads_a_part_is_no_model():
    async def ask():
        async with gateway_of(FakeTriton(config_of("a", "embed"), cuts_names=True)) as client:
            answers = [await client.get("/v1/models/a%00b"), await client.get("/v1/models/a")]
            answers.append(await client.post("/tokenize", json={"model": "a\0", "prompt": "a"}))
            return [answer.status_code for answer in answers], (await client.get("/v1/models")).json()["data"]

    statuses, models = asyncio.run(ask())
    assert statuses == [404, 200, 404] and [model["id"] for model in models] == ["a"]


@pytest.mark.planted
@pytest.mark.parametrize("was_probed", [False, True])
def test_a_server_that_is_just_back_may_lack_a_model_for_a_moment_and_no_longer(monkeypatch, was_probed):
    monkeypatch.setattr(servers, "BACK_S", 0.5)

    async def ask():
        async with pool_of(UnknownNameError("a model", NAME, "list them")) as pool:
            (upstream,) = pool.upstreams
            upstream.models = {NAME: MODEL}
            upstream.client.is_connected = False
            with pytest.raises(UnreachableError):
                await pool.once(NAME, say)
            upstream.client.is_connected = True
            if was_probed:
                upstream.models = {}
            assert not readiness(pool)["ready"]
            ends = asyncio.get_running_loop().time() + SOON_S
            with pytest.raises(UnreachableError, match="just back"):
                await pool.once(NAME, say)
            with pytest.raises(UnknownNameError):
                await pool.once("another", say)
            while True:
                try:
                    await pool.once(NAME, say)
                except UnreachableError:
                    assert asyncio.get_running_loop().time() < ends, "who asks keeps it no longer"
                    await asyncio.sleep(0.02)
                except UnknownNameError:
                    return

    asyncio.run(ask())
