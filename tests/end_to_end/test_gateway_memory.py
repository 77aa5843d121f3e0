"""What many open streams cost the gateway, in a process of its own."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from benchmarks.harness.bare_http import BareClient
from benchmarks.harness.servers import gateway_before
from serving.engine.settings import EngineSettings
from serving.triton.repository.layout import write_repository
from tests.conftest import LANGUAGE_MODEL
from tests.end_to_end.asking import counted, until
from tests.end_to_end.servers import started
from tests.text_checkpoints import PROMPT

pytestmark = pytest.mark.slow

STREAMS, MOST_MIB = 500, 200
LONG = {"model": LANGUAGE_MODEL, "prompt": PROMPT, "max_tokens": 4000, "ignore_eos": True, "stream": True}


def resident_mib(pid):
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line)
    return int(fields["VmRSS"].split()[0]) / 1024


def test_five_hundred_idle_streams_take_less_than_200_megabytes(long_language_model, tmp_path):
    # One is answered, the others wait in its line.
    write_repository(
        [long_language_model], tmp_path / "repository", engine=EngineSettings(max_num_seqs=1, max_queue_size=STREAMS)
    )
    with started(tmp_path / "repository") as triton:

        def waiting():
            return counted(triton.endpoints, LANGUAGE_MODEL, "attendant_num_requests_waiting")

        async def opened(port, pid):
            async with AsyncExitStack() as stack:
                clients = [await stack.enter_async_context(BareClient(port)) for _ in range(STREAMS)]
                for client in clients:
                    client.send("/v1/completions", LONG)
                assert await until(lambda: waiting() == STREAMS - 1), waiting()
                await asyncio.gather(*(client.read_headers() for client in clients))
                return resident_mib(pid)

        with gateway_before(triton.endpoints.grpc, probe_s=3600) as (gateway, port):
            most = asyncio.run(opened(port, gateway.pid))
            assert asyncio.run(until(lambda: waiting() == 0))
    assert most < MOST_MIB
