"""A server that is stopped answers what it has taken, however long that waits for its turn."""

import asyncio

import pytest

from attendant.sampling_params import SamplingParams
from clients.generate import Generator
from clients.silences import SILENCE_S
from clients.triton_client import TritonClient
from serving.engine.settings import EngineSettings
from serving.triton.repository.layout import write_repository
from tests.end_to_end.servers import started

OPTIONS = SamplingParams(max_tokens=2000, ignore_eos=True)


@pytest.mark.planted
def test_requests_that_wait_in_silence_while_the_server_drains_are_answered(long_language_model, tmp_path):
    write_repository([long_language_model], tmp_path / "repository", engine=EngineSettings(max_num_seqs=1))

    async def answers(server):
        async with TritonClient(server.endpoints.grpc, timeout_s=120.0) as client:
            model = await Generator.find(client)

            async def count():
                return sum([len(delta.token_ids) async for delta in model.stream([5, 6], OPTIONS)])

            asked = [asyncio.ensure_future(count()) for _ in range(5)]
            await asyncio.sleep(1.5 * SILENCE_S)  # all have come, and most wait
            assert not all(one.done() for one in asked)
            await asyncio.to_thread(server.stop)
            return await asyncio.gather(*asked, return_exceptions=True)

    with started(tmp_path / "repository", drain_timeout_s=120) as server:
        assert asyncio.run(answers(server)) == [OPTIONS.max_tokens] * 5
