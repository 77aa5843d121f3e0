"""What requests that are made to be dear cost the gateway, in its own process: memory, and how long others wait."""

import asyncio
import io
import json
import time
from pathlib import Path

import httpx
import pytest
from PIL import Image

from benchmarks.harness.servers import gateway_before
from tests.conftest import DIGITS, LANGUAGE_MODEL
from tests.end_to_end.asking import PATIENCE_S, until

SIDE, AT_ONCE = 5000, 24
MOST_MIB = 500  # 356, 129 and 217 were measured; without the bounds 1266, 1141 and 595
MOST_SILENCE_S = 4.0  # 0.3, 0.1 and 0.6 were measured; without the bounds 18 s of the second


def memory_mib(pid, field):
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line)
    return int(fields[field].split()[0]) / 1024


def images():
    packed = io.BytesIO()
    Image.new("RGB", (SIDE, SIDE), (200, 10, 30)).save(packed, "PNG")
    return [{"data": {"model": DIGITS}, "files": {"image": ("x.png", packed.getvalue(), "image/png")}}] * AT_ONCE


def lists():
    headers = {"Content-Type": "application/json"}
    tokens = f'{{"model": "{LANGUAGE_MODEL}", "prompt": [{",".join(["null"] * 800_000)}]}}'
    fields = json.dumps({f"field{number}": [] for number in range(200_000)})
    return [{"content": body, "headers": headers} for body in (tokens, fields)] * 4


def texts():
    headers = {"Content-Type": "application/json"}
    body = b'{"model": "%b", "image": "%b"}' % (DIGITS.encode(), b"iVBORw0K" * 1_700_000)
    long = json.dumps({"model": DIGITS, "image": ",;" * 6_000_000})
    return [{"content": one, "headers": headers} for one in (body, long)] * (AT_ONCE // 2)


@pytest.mark.parametrize(
    ("path", "make"), [("/v1/classify", images), ("/v1/completions", lists), ("/v1/classify", texts)]
)
def test_dear_requests_at_once_keep_within_memory_and_others_do_not_wait(server, path, make):
    requests = make()

    async def longest_silence(client, done):
        longest = 0.0
        while not done.is_set():
            before = time.perf_counter()
            assert (await client.get("/livez")).status_code == 200
            longest = max(longest, time.perf_counter() - before)
            await asyncio.sleep(0.02)
        return longest

    async def asked(url):
        done = asyncio.Event()
        async with (
            httpx.AsyncClient(base_url=url, timeout=2 * PATIENCE_S) as client,
            httpx.AsyncClient(base_url=url, timeout=PATIENCE_S) as other,
        ):
            watching = asyncio.ensure_future(longest_silence(other, done))
            answers = await asyncio.gather(*(client.post(path, **request) for request in requests))
            done.set()
            return {answer.status_code for answer in answers}, await watching

    with gateway_before(server.grpc, probe_s=3600) as (gateway, port):
        url = f"http://127.0.0.1:{port}"
        assert asyncio.run(until(lambda: httpx.get(f"{url}/readyz").status_code == 200))
        statuses, silence_s = asyncio.run(asked(url))
        peak, rest = (memory_mib(gateway.pid, field) for field in ("VmHWM", "VmRSS"))
    assert statuses <= {200, 400, 413, 503}
    assert peak < MOST_MIB and silence_s < MOST_SILENCE_S, (peak, rest, silence_s)
