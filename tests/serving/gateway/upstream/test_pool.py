"""Which server the gateway asks, when it gives one up, and what counts as a failure."""

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager

import numpy as np
import pytest

from attendant.errors import LateError, UnreachableError
from attendant.sampling_params import SamplingParams
from clients.classify import Classifier
from clients.generate import Generator
from serving.gateway.upstream import pool as pools
from serving.gateway.upstream import server as servers
from serving.gateway.upstream.pool import Pool
from tests.end_to_end.asking import until
from tests.serving.gateway.upstream.test_strangers import IMAGES, PIXELS, TEXTS, Stranger, logits_of, serving

SILENCE = np.ones_like(PIXELS)
WAIT_S = 0.4


class Counting(Stranger):
    """A classifier that takes 0.1 s for an image, and never answers to :data:`SILENCE`; it counts requests."""

    def __init__(self):
        super().__init__(logits=logits_of())
        self.count = 0

    async def ModelInfer(self, request, context):  # noqa: N802  gRPC names it
        self.count += 1
        await asyncio.sleep(60 if request.raw_input_contents[0] == SILENCE.tobytes() else 0.1)
        return await super().ModelInfer(request, context)


@asynccontextmanager
async def pool_of(*strangers):
    async with AsyncExitStack() as stack:
        addresses = [(await stack.enter_async_context(serving(one)))[0] for one in strangers]
        pool = Pool(tuple(addresses), timeout_s=10.0, probe_s=60.0)
        for upstream in pool.upstreams:
            await upstream.model(IMAGES)
        try:
            yield pool
        finally:
            for upstream in pool.upstreams:
                await upstream.close()


@pytest.fixture(autouse=True)
def short_waits(monkeypatch):
    monkeypatch.setattr(pools, "FIRST_WAIT_S", WAIT_S)
    monkeypatch.setattr(servers, "CANARY_S", WAIT_S)
    monkeypatch.setattr("clients.calls.LATE_CALLS_S", 0.1)


async def ask_once(upstream, model, pixels=PIXELS):
    return await Classifier(upstream.client, model).logits(pixels)


@pytest.mark.planted
def test_a_heavy_request_is_not_given_up_while_its_calls_are_answered():
    async def ask(upstream, model):
        return [await ask_once(upstream, model) for _ in range(8)]

    async def run():
        strangers = Counting(), Counting()
        async with pool_of(*strangers) as pool:
            assert len(await pool.once(IMAGES, ask)) == 8
            assert sorted(one.count for one in strangers) == [0, 8]

    asyncio.run(run())


@pytest.mark.planted
@pytest.mark.parametrize("is_alone", [False, True])
def test_a_late_answer_counts_as_a_failure_unless_the_model_answers_others(is_alone):
    async def ask_silently(upstream, model):
        return await ask_once(upstream, model, SILENCE)

    async def keep_asking(pool):
        while True:
            await pool.once(IMAGES, ask_once)

    async def run():
        async with pool_of(Counting()) as pool:
            (upstream,) = pool.upstreams
            upstream.client.timeout_s = WAIT_S
            others = None if is_alone else asyncio.ensure_future(keep_asking(pool))
            silent = (pool.once(IMAGES, ask_silently) for _ in range(3))
            for error in await asyncio.gather(*silent, return_exceptions=True):
                assert isinstance(error, LateError)
            assert upstream.is_ejected(IMAGES) is is_alone
            if others is not None:
                others.cancel()

    asyncio.run(run())


class Exchanged(Stranger):
    """A model that is loaded anew from other artefacts; while it is silent, it answers no question about itself."""

    def __init__(self):
        super().__init__(parameters={"labels": '["old"]'})
        self.is_silent = False

    async def ModelConfig(self, request, context):  # noqa: N802  gRPC names it
        while self.is_silent:
            await asyncio.sleep(0.01)
        return await super().ModelConfig(request, context)


@pytest.mark.planted
def test_a_model_that_was_loaded_anew_is_asked_by_its_new_configuration(monkeypatch):
    monkeypatch.setattr(servers, "FRESH_S", 0.0)

    async def run():
        server = Exchanged()
        async with pool_of(server) as pool:
            (upstream,) = pool.upstreams
            old = upstream.models[IMAGES]
            server.is_silent = True
            assert await upstream.current(old) is old and old.parameters["labels"] == ["old"]
            server.parameters = {"labels": '["new"]'}
            assert await upstream.current(old) is old, "it loads another model"
            server.is_silent = False
            await asyncio.sleep(0.2)
            found = await asyncio.gather(*(upstream.current(old) for _ in range(3)))
            assert [one.parameters["labels"] for one in found] == [["new"]] * 3
            monkeypatch.setattr(servers, "FRESH_S", 60.0)
            server.is_silent = True
            assert await upstream.current(found[0]) is found[0], "what was said a moment ago is not asked again"
            assert await upstream.current(old) is found[0], "though another request asked"

    asyncio.run(run())


class FarAway(Stranger):
    """A server whose every word takes a while."""

    WAY_S = 0.8

    def __init__(self, **more):
        super().__init__(**more)
        self.way_s = self.WAY_S

    async def ModelConfig(self, request, context):  # noqa: N802  gRPC names it
        await asyncio.sleep(self.way_s)
        return await super().ModelConfig(request, context)


@pytest.mark.planted
@pytest.mark.parametrize("was_near", [False, True])
def test_the_word_of_a_server_that_is_far_away_is_waited_for(monkeypatch, was_near):
    monkeypatch.setattr(servers, "FRESH_S", 0.0)
    assert servers.PATIENCE_S < FarAway.WAY_S

    async def run():
        server = FarAway(parameters={"labels": '["old"]'})
        server.way_s = 0.0 if was_near else FarAway.WAY_S
        async with pool_of(server) as pool:
            (upstream,) = pool.upstreams
            server.way_s = FarAway.WAY_S
            for _ in range(3 * was_near):  # as probes do
                await upstream._describe(IMAGES)
            server.parameters = {"labels": '["new"]'}
            return (await upstream.current(upstream.models[IMAGES])).parameters["labels"]

    assert asyncio.run(run()) == ["new"]


class Hesitant(Stranger):
    """A language model that answers the first of its streams alone."""

    def __init__(self):
        super().__init__()
        self.count = 0

    async def ModelStreamInfer(self, requests, context):  # noqa: N802  gRPC names it
        self.count += 1
        if self.count > 1:
            await asyncio.sleep(60)
        async for answer in super().ModelStreamInfer(requests, context):
            yield answer


@pytest.mark.planted
@pytest.mark.parametrize("is_alone", [False, True])
def test_so_does_a_late_stream_unless_the_model_answers_others(is_alone):
    async def read(upstream, generator):
        with upstream.track_request(TEXTS):
            async for _ in generator.stream("a", SamplingParams()):
                pass

    async def run():
        async with pool_of(Hesitant()) as pool:
            (upstream,) = pool.upstreams
            upstream.client.timeout_s = WAIT_S
            generator = Generator(upstream.client, await upstream.model(TEXTS))
            answered = asyncio.ensure_future(read(upstream, generator))
            await until(lambda: TEXTS in upstream.client.answered_s)
            if is_alone:
                answered.cancel()
            silent = (read(upstream, generator) for _ in range(3))
            for error in await asyncio.gather(*silent, return_exceptions=True):
                assert isinstance(error, LateError)
            assert upstream.is_ejected(TEXTS) is is_alone
            answered.cancel()

    asyncio.run(run())


@pytest.mark.patient
@pytest.mark.planted
def test_calls_that_a_server_never_ends_do_not_add_up(monkeypatch):
    monkeypatch.setattr(servers, "MOST_LATE_CALLS", 3, raising=False)

    async def run():
        async with pool_of(Counting()) as pool:
            (upstream,) = pool.upstreams
            first = upstream.client
            first.timeout_s = WAIT_S
            silent = (first.infer(IMAGES, {"pixels": SILENCE}) for _ in range(3))
            await asyncio.gather(*silent, return_exceptions=True)
            assert first.late_calls == 3
            await upstream.probe()
            assert upstream.client is not first and IMAGES in upstream.models
            await upstream.probe()
            await asyncio.sleep(0.2)
            assert first.late_calls == 0

    asyncio.run(run())


@pytest.mark.patient
@pytest.mark.planted
def test_a_stream_goes_on_however_often_its_server_is_connected_anew():
    def start(upstream, model):
        return Generator(upstream.client, model).stream("a", SamplingParams())

    async def run():
        async with pool_of(Stranger()) as pool:
            (upstream,) = pool.upstreams
            stream = pool.stream(TEXTS, start)
            for _ in range(3):
                assert (await anext(stream)).text == "a"
                former = upstream.client
                upstream._replace_client(upstream._connect())
                await upstream.probe()
                assert upstream.client is not former
            assert upstream.in_flight == 1 and (await anext(stream)).text == "a"
            await stream.aclose()
            await upstream.probe()
            assert not upstream._former

    asyncio.run(run())


def test_to_look_at_a_model_takes_no_turn():
    async def run():
        strangers = Counting(), Counting()
        async with pool_of(*strangers) as pool:
            for _ in range(6):
                await pool.model(IMAGES)
                await pool.once(IMAGES, ask_once)
        return [one.count for one in strangers]

    assert asyncio.run(run()) == [3, 3]


@pytest.mark.parametrize("is_stream", [False, True])
def test_who_waits_to_be_told_of_a_model_that_is_ejected_meanwhile_is_told_so(is_stream):
    async def stream(upstream, model):
        yield await ask_once(upstream, model)

    async def run():
        async with pool_of(Counting()) as pool:
            (upstream,) = pool.upstreams
            told, model_of = asyncio.Event(), upstream.model

            async def model(name):
                await told.wait()
                return await model_of(name)

            upstream.model = model
            waits = anext(pool.stream(IMAGES, stream)) if is_stream else pool.once(IMAGES, ask_once)
            waiting = asyncio.ensure_future(waits)
            await asyncio.sleep(0)
            upstream.eject(IMAGES)  # another request found it dead
            told.set()
            with pytest.raises(UnreachableError, match="retry in some seconds"):
                await waiting

    asyncio.run(run())
