"""What operators rely on, before a real Triton: ids, keys, limits, cancellation, health, metrics, logs, draining."""

import asyncio
import json
import logging
import threading
import time

import httpx
import pytest
from openai import AsyncOpenAI, AuthenticationError, OpenAI, RateLimitError

from serving.gateway.middleware import metrics
from serving.gateway.middleware.keys import new_key
from serving.triton.server.ports import free_ports
from tests.conftest import DATES, DIGITS, EVERY_TASK, LANGUAGE_MODEL, NARROW_LENGTH, NARROW_WAITING
from tests.end_to_end.asking import PATIENCE_S, active, counted, page, until
from tests.end_to_end.gateways import started
from tests.text_checkpoints import PROMPT

LONG = {
    "model": LANGUAGE_MODEL,
    "prompt": PROMPT,
    "temperature": 0,
    "max_tokens": NARROW_LENGTH - 96,
    "ignore_eos": True,
}
DATE = {"model": DATES, "input": "3rd of march 1997"}


def line(server):
    """How many sequences the language model decodes, and how many wait."""
    return active(server), counted(server, LANGUAGE_MODEL, "attendant_num_requests_waiting")


def cancelled(server):
    return counted(server, LANGUAGE_MODEL, "attendant_requests_total{cancelled}")


def asked_of(gateway, question):
    """``question(client)`` is a coroutine; its result."""

    async def asked():
        async with httpx.AsyncClient(base_url=gateway.url, timeout=PATIENCE_S) as client:
            return await question(client)

    return asyncio.run(asked())


def come_true(condition):
    return asyncio.run(until(condition))


@pytest.fixture(scope="module")
def before_narrow(narrow):
    """A gateway in front of one slot, whose own canaries keep away."""
    with started(narrow.grpc, probe_s=3600.0) as running:
        assert come_true(lambda: httpx.get(f"{running.url}/readyz").status_code == 200)
        yield running


@pytest.fixture(scope="module")
def keyed(server, tmp_path_factory):
    """A gateway with a key for anything, one for two requests an hour, and one for a few tokens."""
    file = tmp_path_factory.mktemp("keys") / "keys.json"
    secrets = {"any": new_key(file, "any"), "two": new_key(file, "two", requests="2/hour")}
    secrets["few"] = new_key(file, "few", tokens="12/day")
    with started(server.grpc, keys=file, body_bytes=100_000) as running:
        yield running, secrets


def test_a_request_id_goes_out_as_it_came_in_and_is_made_where_there_is_none(gateway):
    told = httpx.get(f"{gateway.url}/v1/models", headers={"X-Request-ID": "my-own.1"}).headers["x-request-id"]
    made = [
        httpx.get(f"{gateway.url}/v1/nothing", headers=one).headers["x-request-id"]
        for one in ({}, {"X-Request-ID": "a b\tc"})
    ]
    assert told == "my-own.1" and all(len(one) == 32 for one in made) and made[0] != made[1]


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_goes_frees_its_slot_and_is_counted(before_narrow, narrow, stream):
    pieces = []

    async def asked(openai):
        answer = await openai.completions.create(**_openai(LONG), stream=stream)
        async for piece in answer:
            pieces.append(piece)

    async def left():
        async with AsyncOpenAI(base_url=f"{before_narrow.url}/v1", api_key="none", max_retries=0) as openai:
            answer = asyncio.ensure_future(asked(openai))
            # A stream has its status with its first piece, and who goes before that is a 499 as well.
            assert await until(lambda: active(narrow) == 1 and bool(pieces) == stream), answer
            before = cancelled(narrow), gone()
            answer.cancel()
            await asyncio.wait([answer])
            assert answer.cancelled()
            return before

    def gone():
        line = f'attendant_gateway_requests_total{{model="{LANGUAGE_MODEL}",route="/v1/completions",status="499"}} '
        lines = page(f"{before_narrow.url}/metrics").splitlines()
        return sum(float(one.removeprefix(line)) for one in lines if one.startswith(line))

    cancelled_before, gone_before = asyncio.run(left())
    assert come_true(lambda: active(narrow) == 0)
    assert cancelled(narrow) == cancelled_before + 1
    assert come_true(lambda: gone() == gone_before + (not stream))


def _openai(asked):
    known = {name: value for name, value in asked.items() if name != "ignore_eos"}
    return {**known, "extra_body": {"ignore_eos": True}}


def test_a_client_that_goes_while_it_waits_leaves_the_line_and_the_answer_before_it_goes_on(before_narrow, narrow):
    async def left(client):
        async with client.stream("POST", "/v1/completions", json={**LONG, "stream": True}) as first:
            lines = first.aiter_lines()
            await anext(lines)
            before = cancelled(narrow)
            second = asyncio.ensure_future(client.post("/v1/completions", json={**LONG, "stream": True}))
            assert await until(lambda: line(narrow) == (1, 1)), second
            second.cancel()
            assert await until(lambda: line(narrow)[1] == 0)
            assert cancelled(narrow) == before + 1
            tokens = counted(narrow, LANGUAGE_MODEL, "attendant_generation_tokens_total")
            assert await until(lambda: counted(narrow, LANGUAGE_MODEL, "attendant_generation_tokens_total") > tokens)
            assert line(narrow) == (1, 0)
        assert await until(lambda: line(narrow) == (0, 0))

    asked_of(before_narrow, left)


def test_one_more_than_may_wait_is_told_429_with_a_time_to_come_back(before_narrow, narrow):
    async def crowd(client):
        asked = []
        for now in [(1, waiting) for waiting in range(NARROW_WAITING + 1)]:
            asked.append(asyncio.ensure_future(client.post("/v1/completions", json=LONG)))
            assert await until(lambda now=now: line(narrow) == now), asked  # else a line of three, which is too long
        refused = [await client.post("/v1/completions", json={**LONG, "stream": stream}) for stream in (False, True)]
        assert line(narrow) == (1, NARROW_WAITING)
        for one in asked:
            one.cancel()
        assert await until(lambda: line(narrow) == (0, 0))
        return refused

    for refused in asked_of(before_narrow, crowd):
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        assert refused.json()["error"]["code"] == "queue_full"


def test_only_who_has_a_key_is_answered(keyed):
    running, secrets = keyed
    for secret in ("", "att-wrong", secrets["any"][:-1]):
        with (
            pytest.raises(AuthenticationError) as refused,
            OpenAI(base_url=f"{running.url}/v1", api_key=secret or "x") as openai,
        ):
            openai.models.list()
        assert refused.value.code == "invalid_api_key"
    with OpenAI(base_url=f"{running.url}/v1", api_key=secrets["any"]) as openai:
        assert len(openai.models.list().data) == len(EVERY_TASK)
    assert httpx.get(f"{running.url}/livez").status_code == 200


def test_a_limit_of_requests_is_told_in_headers_and_kept(keyed):
    running, secrets = keyed
    with OpenAI(base_url=f"{running.url}/v1", api_key=secrets["two"], max_retries=0) as openai:
        first = openai.models.with_raw_response.list().headers
        assert first["ratelimit-policy"] == '"requests";q=2;w=3600' and first["ratelimit"].startswith('"requests";r=1;')
        openai.models.list()
        with pytest.raises(RateLimitError) as refused:
            openai.models.list()
    assert int(refused.value.response.headers["retry-after"]) > 0


def test_a_quota_of_tokens_counts_questions_and_answers(keyed):
    running, secrets = keyed
    with httpx.Client(
        base_url=running.url, headers={"Authorization": f"Bearer {secrets['few']}"}, timeout=PATIENCE_S
    ) as client:
        asked = {**LONG, "max_tokens": 2, "stream": True}  # 9 tokens and 2
        assert client.post("/v1/completions", json={**asked, "max_tokens": 13}).json()["error"]["param"] == "max_tokens"
        assert client.post("/v1/completions", json=asked).status_code == 200
        left = client.get("/v1/models")
        assert left.headers["ratelimit"].startswith('"tokens";r=1;')
        assert client.post("/v1/completions", json=asked).status_code == 429


def test_requests_at_once_stay_within_a_quota_of_tokens(server, tmp_path):
    secret = new_key(tmp_path / "keys.json", "ann", tokens="60/hour")

    async def at_once(client):
        headers = {"Authorization": f"Bearer {secret}"}
        asked = {**LONG, "max_tokens": 12}
        answers = await asyncio.gather(
            *(client.post("/v1/completions", json=asked, headers=headers) for _ in range(12)),
            *(client.post("/v1/completions", json={**asked, "max_tokens": None}, headers=headers) for _ in range(4)),
        )
        return [(one.status_code, one.json()) for one in answers]

    with started(server.grpc, keys=tmp_path / "keys.json") as running:
        answers = asked_of(running, at_once)
    used = [body["usage"]["total_tokens"] for status, body in answers if status == 200]
    assert used and sum(used) <= 60
    assert {status for status, _ in answers} <= {200, 400, 429}


def test_a_body_is_bounded_whether_it_says_its_length_or_not(keyed):
    running, secrets = keyed
    headers = {"Authorization": f"Bearer {secrets['any']}"}
    large = json.dumps({**DATE, "input": "a" * 100_000}).encode()
    for body in (large, iter([large])):
        refused = httpx.post(f"{running.url}/v1/translate", content=body, headers=headers)
        assert refused.status_code == 413 and refused.json()["error"]["code"] == "too_large"


def test_no_page_of_another_origin_may_ask_unless_it_is_named(gateway, server):
    origin = {"Origin": "https://elsewhere.example"}
    assert "access-control-allow-origin" not in httpx.get(f"{gateway.url}/v1/models", headers=origin).headers
    with started(server.grpc, cors=("https://elsewhere.example",)) as running:
        assert "access-control-allow-origin" in httpx.get(f"{running.url}/v1/models", headers=origin).headers


def test_ready_means_that_every_model_answers_its_canary(gateway, server):
    assert come_true(lambda: httpx.get(f"{gateway.url}/readyz").status_code == 200)
    answers = httpx.get(f"{gateway.url}/readyz").json()["upstreams"][server.grpc]
    assert answers == dict.fromkeys(sorted(EVERY_TASK), "ok")
    (nobody,) = free_ports(1)
    with started(f"127.0.0.1:{nobody}") as alone:
        assert httpx.get(f"{alone.url}/readyz").status_code == 503
        assert httpx.get(f"{alone.url}/livez").status_code == 200
        refused = httpx.post(f"{alone.url}/v1/translate", json=DATE)
        assert refused.status_code == 503 and refused.headers["retry-after"]


def test_metrics_count_requests_tokens_and_first_tokens_by_route(gateway, server, monkeypatch):
    monkeypatch.setattr(metrics, "FRESH_S", -1.0)

    def metric(name):
        lines = httpx.get(f"{gateway.url}/metrics").text.splitlines()
        return next((float(line.rpartition(" ")[2]) for line in lines if line.startswith(name)), 0.0)

    names = (
        f'attendant_gateway_requests_total{{model="{DATES}",route="/v1/translate",status="200"}}',
        f'attendant_gateway_time_to_first_token_seconds_count{{model="{DATES}",route="/v1/translate"}}',
        f'attendant_gateway_tokens_total{{model="{DATES}",of="completion"}}',
    )
    before = [metric(name) for name in names]
    assert httpx.post(f"{gateway.url}/v1/translate", json=DATE).status_code == 200
    assert [metric(name) - was for name, was in zip(names, before, strict=True)] == [1, 1, 10]
    assert metric(f'attendant_gateway_upstream_ejected{{model="{DATES}",upstream="{server.grpc}"}}') == 0
    httpx.get(f"{gateway.url}/v1/some/{time.time()}")
    assert metric('attendant_gateway_requests_total{model="",route="other",status="404"}') >= 1


@pytest.mark.parametrize("log_prompts", [False, True])
def test_the_log_has_a_line_a_request_without_what_was_asked(server, caplog, log_prompts):
    caplog.set_level(logging.INFO, "attendant.gateway")
    with started(server.grpc, log_prompts=log_prompts) as running:
        httpx.post(f"{running.url}/v1/translate", json=DATE, headers={"X-Request-ID": "seen"})
    (line,) = [record.fields for record in caplog.records if record.name == "attendant.gateway"]
    assert (line["request_id"], line["status"], line["model"], line["tokens"]) == ("seen", 200, DATES, 10)
    assert ("march" in json.dumps(line)) == log_prompts


def test_an_answer_that_is_open_finishes_when_the_gateway_stops_and_no_other_begins(narrow):
    with (
        started(narrow.grpc, probe_s=3600.0) as running,
        httpx.Client(base_url=running.url, timeout=PATIENCE_S) as client,
    ):
        with client.stream("POST", "/v1/completions", json={**LONG, "max_tokens": 1500, "stream": True}) as answer:
            lines = answer.iter_lines()
            next(lines)
            running.server.should_exit = True
            assert come_true(lambda: not _takes(running.url))
            assert [line for line in lines if line][-1] == "data: [DONE]"
        running.thread.join(PATIENCE_S)
        assert not running.thread.is_alive()


def _takes(url):
    try:
        return httpx.get(f"{url}/livez").is_success
    except httpx.TransportError:
        return False


def test_an_answer_that_outlasts_the_drain_is_cut_and_its_slot_is_free(narrow):
    with started(narrow.grpc, probe_s=3600.0, drain_timeout_s=0.2) as running:
        with httpx.stream(
            "POST", f"{running.url}/v1/completions", json={**LONG, "stream": True}, timeout=PATIENCE_S
        ) as answer:
            lines = answer.iter_lines()
            next(lines)
            threading.Timer(0.1, setattr, (running.server, "should_exit", True)).start()
            with pytest.raises(httpx.RemoteProtocolError):
                list(lines)
        assert come_true(lambda: active(narrow) == 0)


def test_an_image_model_is_no_text_model(gateway):
    refused = httpx.post(f"{gateway.url}/v1/translate", json={**DATE, "model": DIGITS})
    assert refused.status_code == 404 and refused.json()["error"]["code"] == "model_not_found"
