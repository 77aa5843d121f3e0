"""A server that is stopped answers what it has taken, however long that waits for its turn."""

import asyncio
import signal
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from attendant.errors import AttendantError
from attendant.sampling_params import SamplingParams
from clients.generate import Generator
from clients.silences import SILENCE_S
from clients.triton_client import TritonClient
from serving.engine.settings import EngineSettings
from serving.triton.repository.layout import write_repository
from serving.triton.server.ports import free_ports
from tests.conftest import LANGUAGE_MODEL
from tests.end_to_end.asking import PATIENCE_S, counted, until
from tests.end_to_end.servers import started
from tests.end_to_end.test_up import READY_S, up

OPTIONS = SamplingParams(max_tokens=2000, ignore_eos=True)


def _came(server):
    metrics = ("num_requests_running", "num_requests_waiting", "requests_total")
    return sum(counted(server, LANGUAGE_MODEL, f"attendant_{name}") for name in metrics)


@pytest.mark.planted
def test_requests_that_wait_in_silence_while_the_server_drains_are_answered(long_language_model, tmp_path):
    write_repository([long_language_model], tmp_path / "repository", engine=EngineSettings(max_num_seqs=1))

    async def answers(server):
        async with TritonClient(server.endpoints.grpc, timeout_s=120.0) as client:
            model, before = await Generator.find(client), _came(server.endpoints)

            async def count():
                return sum([len(delta.token_ids) async for delta in model.stream([5, 6], OPTIONS)])

            asked = [asyncio.ensure_future(count()) for _ in range(5)]
            assert await until(lambda: _came(server.endpoints) >= before + 5)
            await asyncio.sleep(1.5 * SILENCE_S)  # most wait
            assert not all(one.done() for one in asked)
            await asyncio.to_thread(server.stop)
            answered = await asyncio.gather(*asked, return_exceptions=True)
            return [(type(one), one.found) if isinstance(one, AttendantError) else one for one in answered]

    with started(tmp_path / "repository", drain_timeout_s=120) as server:
        assert asyncio.run(answers(server)) == [OPTIONS.max_tokens] * 5


@pytest.mark.planted
def test_a_request_of_many_parts_is_answered_whole_by_a_server_that_drains(long_language_model, tmp_path):
    write_repository([long_language_model], tmp_path / "repository", engine=EngineSettings(max_num_seqs=1))
    (port,), parts = free_ports(1), 40
    body = {"model": LANGUAGE_MODEL, "prompt": ["a"] * parts, "max_tokens": 200, "ignore_eos": True}
    gateway = ("--gateway-port", str(port), "--drain-timeout-s", "120")

    def ask():
        return httpx.post(f"http://127.0.0.1:{port}/v1/completions", json=body, timeout=4 * PATIENCE_S)

    with up(*gateway, repository=tmp_path / "repository") as (process, _), ThreadPoolExecutor(1) as pool:
        while process.stdout.readline() != "Ctrl-C stops it\n":
            assert process.poll() is None
        asked = pool.submit(ask)
        with pytest.raises(TimeoutError):
            asked.result(1.0)  # so that some parts were sent, and others were not
        process.send_signal(signal.SIGTERM)
        answer = asked.result()
        _, errors = process.communicate(timeout=READY_S)
    assert answer.status_code == 200, answer.text
    assert [choice["finish_reason"] for choice in answer.json()["choices"]] == ["length"] * parts
    assert process.returncode == 0, errors
