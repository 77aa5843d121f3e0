"""More streams at once than a model takes: each request is answered or refused soon, and no worker is called dead."""

import asyncio
import time

import httpx
import pytest

from tests.end_to_end.asking import PATIENCE_S
from tests.end_to_end.gateways import started as gateway_before
from tests.end_to_end.servers import started

pytestmark = pytest.mark.patient

MODEL, PROMPT = "stdlib-lm", "Open a file and"
SOON_S = 5.0
BURST = 26
MANY = {
    "model": MODEL,
    "prompt": [PROMPT] * 64,
    "max_tokens": 100,
    "ignore_eos": True,
    "seed": 1,
    "logprobs": 20,
}
ONE = {"model": MODEL, "prompt": PROMPT, "max_tokens": 4}


@pytest.fixture(scope="module")
def running(exported, tmp_path_factory):
    """A gateway before a real server of a language model."""
    from serving.triton.repository.layout import write_repository

    repository = tmp_path_factory.mktemp("bursts") / "repository"
    write_repository([exported(MODEL)], repository)
    with started(repository) as server, gateway_before(server.endpoints.grpc) as gateway:
        yield gateway


async def _ask(client, path, body=None):
    """Status, body and seconds of a request."""
    began_s = time.monotonic()
    answer = await (client.get(path) if body is None else client.post(path, json=body))
    return answer.status_code, answer.text, time.monotonic() - began_s


async def _again_and_again(client, path, body, until):
    found = []
    while not until.done():
        found.append(await _ask(client, path, body))
        await asyncio.sleep(0.05)
    return found


def test_a_burst_is_answered_or_refused_soon_and_a_neighbour_too(running):
    async def burst():
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(base_url=running.url, timeout=4 * PATIENCE_S, limits=limits) as client:
            assert (await _ask(client, "/v1/completions", ONE))[0] == 200
            asked = [_ask(client, "/v1/completions", {**MANY, "stream": bool(one % 2)}) for one in range(BURST)]
            many = asyncio.gather(*asked)
            others = asyncio.gather(
                *(_again_and_again(client, *one, many) for one in (("/v1/completions", ONE), ("/livez", None)))
            )
            return await many, *await others

    many, neighbours, lives = asyncio.run(burst())
    assert {status for status, _, _ in many} <= {200, 429} and not any("died" in text for _, text, _ in many)
    assert [status for status, _, _ in many].count(200) >= 2
    assert max(seconds for status, _, seconds in many if status == 429) < SOON_S
    assert {status for status, _, _ in neighbours} <= {200, 429}
    assert max(seconds for _, _, seconds in neighbours) < SOON_S
    assert {status for status, _, _ in lives} == {200} and max(seconds for _, _, seconds in lives) < SOON_S


def test_a_request_for_whose_prompts_there_is_no_room_is_refused_as_a_whole(running):
    async def ask():
        async with httpx.AsyncClient(base_url=running.url, timeout=PATIENCE_S) as client:
            return await asyncio.gather(*(_ask(client, "/v1/completions", {**MANY, "max_tokens": 1}) for _ in range(9)))

    answers = asyncio.run(ask())
    assert {status for status, _, _ in answers} == {200, 429}
    refused = [text for status, text, _ in answers if status == 429]
    assert all("of 272 requests" in text and "64 more: retry later" in text for text in refused)
