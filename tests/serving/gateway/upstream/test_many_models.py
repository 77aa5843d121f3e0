"""A server that answers each question about its models soon, and all of them not so soon."""

import asyncio

import pytest
from tritonclient.grpc import service_pb2

from serving.gateway.upstream import server as servers
from serving.gateway.upstream.pool import Pool
from serving.gateway.upstream.server import Upstream
from tests.end_to_end.asking import until
from tests.serving.gateway.upstream.test_strangers import IMAGES, Stranger, logits_of, serving

COUNT = 60


class Far(Stranger):
    """It takes 50 ms to say what a model is, of one at a time; it does not say so at all once it is silent."""

    def __init__(self):
        super().__init__(logits=logits_of())
        self.turn, self.is_silent = asyncio.Lock(), False

    async def ModelStatistics(self, request, context):  # noqa: N802  gRPC names it
        answer = await super().ModelStatistics(request, context)
        for number in range(COUNT):
            answer.model_stats.add(name=f"other-{number}")
        return answer

    async def ModelConfig(self, request, context):  # noqa: N802  gRPC names it
        async with self.turn:
            await asyncio.sleep(60 if self.is_silent else 0.05)
        return await super().ModelConfig(request, context)


class Near(Stranger):
    """It has the classifier alone."""

    async def ModelStatistics(self, request, context):  # noqa: N802  gRPC names it
        answer = service_pb2.ModelStatisticsResponse()
        answer.model_stats.add(name=IMAGES)
        return answer


@pytest.fixture(autouse=True)
def short_waits(monkeypatch):
    monkeypatch.setattr(servers, "CANARY_S", 1.0)
    monkeypatch.setattr("clients.calls.LATE_CALLS_S", 0.1)


@pytest.mark.patient
def test_a_server_of_many_models_is_ready_though_they_take_longer_than_one_answer_may():
    async def probe():
        async with serving(Far()) as (address, _):
            upstream = Upstream(address, 30.0)
            try:
                await upstream.probe()
                assert len(upstream.models) == COUNT + 2
            finally:
                await upstream.close()

    asyncio.run(probe())


def test_one_that_is_silent_holds_no_others_canaries(monkeypatch):
    monkeypatch.setattr(servers, "CANARY_S", 600.0)

    async def watch():
        silent = Far()
        silent.is_silent = True
        async with (
            serving(silent) as (far, _),
            serving(Near(logits=logits_of())) as (near, _),
            Pool((far, near), timeout_s=600.0, probe_s=0.05) as pool,
        ):
            for _ in range(2):
                assert await until(lambda: IMAGES in pool.upstreams[1].verdicts)
                pool.upstreams[1].verdicts.clear()

    asyncio.run(watch())
