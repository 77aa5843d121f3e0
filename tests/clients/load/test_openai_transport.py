"""The OpenAI transport against a small real server of that protocol."""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from attendant.errors import InputError, LateError, ServerError, UnknownNameError
from attendant.sampling_params import SamplingParams
from attendant.tensor_names import TEXT_INPUT
from clients.load.arrivals import ClosedLoop
from clients.load.http_session import MOST_BYTES
from clients.load.openai_transport import OpenAITransport, _count_tokens
from clients.load.record import RequestOutcome
from clients.load.request_inputs import RequestInput, text_tensor
from clients.load.run import run_load
from clients.load.scenario import Cancel, Expect, Inputs, Scenario, Target, Workload

WORDS = ("one ", "two ", "three ", "four ")
KEY = "secret"


def event(told):
    return f"data: {told if isinstance(told, str) else json.dumps(told)}\n\n"


async def spoken(model, chat):
    """Each event is two words where the model is ``pairs``; ``counting`` counts in each event."""
    pieces = ["".join(WORDS[:2]), "".join(WORDS[2:])] if model == "pairs" else WORDS
    per_piece = len(WORDS) // len(pieces)
    if chat:
        yield event({"choices": [{"index": 0, "delta": {"role": "assistant"}}]})
    for number, piece in enumerate(pieces, 1):
        said = {"delta": {"content": piece}} if chat else {"text": piece}
        told = {"choices": [{"index": 0, "finish_reason": None, **said}]}
        yield event(told | ({"usage": {"completion_tokens": number * 3}} if model == "counting" else {}))
        await asyncio.sleep(0.02 if model == "slow" else 0)
    if model == "broken":
        yield event({"error": {"message": "out of breath", "code": 503}})
    if model == "late":
        yield event({"error": {"message": "its time is over", "code": "deadline_exceeded"}})
    if model in ("broken", "cut", "late"):
        return
    if model != "silent":
        said = {"delta": {}} if chat else {"text": ""}
        yield event({"choices": [{"index": 0, "finish_reason": "stop", **said}]})
    count = 12 if model == "counting" else len(pieces) * per_piece
    yield event({"choices": [], "usage": {"completion_tokens": count, "prompt_tokens": 7}})
    yield event("[DONE]")


async def endless(end):
    for _ in range(4 * MOST_BYTES >> 20):
        yield b":" * (1 << 20) + end


async def answered(request):
    asked = await request.json()
    if asked["model"] == "endless":
        return StreamingResponse(endless(b"\n" if asked.get("stream") else b""))
    if request.headers.get("authorization") != f"Bearer {KEY}":
        return JSONResponse({"error": {"message": "no key"}}, 401)
    if asked["model"] == "busy":
        return JSONResponse({"error": {"message": "too many"}}, 429)
    chat = request.url.path.endswith("chat/completions")
    assert asked["messages"][0]["content"] == "Count" if chat else asked["prompt"] == "Count"
    if asked.get("stream"):
        assert asked["stream_options"] == {"include_usage": True}
        return StreamingResponse(spoken(asked["model"], chat), media_type="text/event-stream")
    if asked["model"].startswith("odd"):
        odd = {"odd-null": None, "odd-text": "four", "odd-list": [4], "odd-less": -1}[asked["model"]]
        return JSONResponse(
            {
                "choices": [{"finish_reason": "stop", "text": "a"}],
                "usage": {"completion_tokens": 1, "prompt_tokens": odd},
            }
        )
    if asked["model"] == "wordy":
        return JSONResponse({"error": {"message": "no " * (1 << 20)}}, 500)
    text, usage = "".join(WORDS), {"completion_tokens": asked["max_tokens"]}
    said = {"message": {"content": text}} if chat else {"text": text}
    return JSONResponse({"choices": [{"finish_reason": "length", **said}], "usage": usage})


async def embedded(request):
    return JSONResponse({"data": [{"embedding": [1.0, 0.5]}], "usage": {"prompt_tokens": 1}})


async def listed(request):
    models = ("words", "pairs", "counting", "slow", "silent", "cut", "broken", "busy", "endless", "late", "wordy")
    return JSONResponse({"data": [{"id": name} for name in (*models, "odd-null", "odd-text", "odd-list", "odd-less")]})


ROUTES = [
    Route("/v1/models", listed),
    Route("/v1/completions", answered, methods=["POST"]),
    Route("/v1/chat/completions", answered, methods=["POST"]),
    Route("/v1/embeddings", embedded, methods=["POST"]),
]


@asynccontextmanager
async def serving(routes):
    server = uvicorn.Server(uvicorn.Config(Starlette(routes=routes), port=0, log_level="error", ws="none"))
    running = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/v1"
    finally:
        server.should_exit = True
        await running


@pytest.fixture
def ran(tmp_path):
    """``ran(model, …)``: three requests to it, one after the other."""
    key = tmp_path / "key"
    key.write_text(f"{KEY}\n")

    async def run(model, changes):
        async with serving(ROUTES) as address:
            workload = {"inputs": Inputs(kind="texts", texts=("Count",)), **changes}
            scenario = Scenario(
                workloads=(Workload(name=model, model=model, **workload),),
                target=Target(transport="openai", address=address, key_file=str(key)),
                arrivals=ClosedLoop(),
                requests=3,
            )
            return await run_load(scenario)

    return lambda model, **changes: asyncio.run(run(model, changes))


@pytest.mark.parametrize("endpoint", ["completions", "chat"])
def test_a_stream_brings_its_tokens_event_by_event(ran, endpoint):
    found = ran("words", endpoint=endpoint, expect=Expect(kind="text", answers=("".join(WORDS),), tokens=4))
    for record in found.records:
        assert (record.outcome, record.error, record.tokens) == (RequestOutcome.OK, "", (1, 1, 1, 1))
        assert list(record.responses_s) == sorted(record.responses_s)
        assert record.input_tokens == 7


def test_tokens_that_come_together_are_spread_over_the_events_by_the_count_at_the_end(ran):
    assert ran("pairs").records[0].tokens == (2, 2)


def test_a_server_that_counts_as_it_goes_is_believed(ran):
    assert ran("counting").records[0].tokens == (3, 3, 3, 3)


@pytest.mark.parametrize("endpoint", ["completions", "chat"])
def test_a_whole_answer_is_one_response_of_all_tokens(ran, endpoint):
    found = ran(
        "words",
        endpoint=endpoint,
        stream=False,
        decoding=SamplingParams(max_tokens=7),
        expect=Expect(kind="text", answers=("".join(WORDS),)),
    )
    assert [(record.outcome, record.tokens) for record in found.records] == [(RequestOutcome.OK, (7,))] * 3


def test_a_vector_is_compared_with_the_first(ran):
    found = ran("words", endpoint="embeddings", expect=Expect(kind="same"))
    assert [record.outcome for record in found.records] == [RequestOutcome.OK] * 3


def test_a_whole_answer_that_never_ends_is_an_error(ran):
    for record in ran("endless", stream=False).records:
        assert f"at most {MOST_BYTES} bytes" in record.error


@pytest.mark.parametrize(
    ("body", "told"),
    [(b"<html>", "JSON"), (b"[" * 100_000, "JSON"), (b"[]", "a JSON object"), (b'{"data": [1]}', "a list of models")],
)
def test_a_server_of_another_protocol_is_told_before_anything_is_sent(body, told):
    async def ask():
        async with serving([Route("/v1/models", lambda request: Response(body))]) as address:
            transport = OpenAITransport(Target(transport="openai", address=address))
            try:
                await transport.model("words")
            finally:
                await transport.close()

    with pytest.raises(ServerError, match=f"expected {told}"):
        asyncio.run(ask())


@pytest.mark.parametrize(
    ("model", "outcome", "told"),
    [
        ("silent", RequestOutcome.ERROR, "finish_reason"),
        ("cut", RequestOutcome.ERROR, "[DONE]"),
        ("broken", RequestOutcome.ERROR, "out of breath"),
        ("busy", RequestOutcome.ERROR, "429: too many"),
        ("endless", RequestOutcome.ERROR, f"at most {MOST_BYTES} bytes"),
    ],
)
def test_a_stream_that_does_not_end_well_is_an_error(ran, model, outcome, told):
    for record in ran(model).records:
        assert record.outcome is outcome
        assert told in record.error


def test_a_request_is_taken_back_by_closing_its_connection(ran):
    found = ran("slow", cancel=Cancel(share=1.0, after_tokens=1))
    assert {record.outcome for record in found.records} == {RequestOutcome.CANCELLED}
    assert all(sum(record.tokens) < 4 for record in found.records)


def test_a_deadline_closes_a_stream(ran):
    assert {record.outcome for record in ran("slow", deadline_ms=30).records} == {RequestOutcome.DEADLINE_EXCEEDED}


def test_an_unknown_model_and_inputs_that_nobody_described_are_refused(ran):
    with pytest.raises(UnknownNameError, match="unheard"):
        ran("unheard")
    with pytest.raises(InputError, match="texts or files"):
        ran("words", inputs=Inputs(kind="random"))


@pytest.mark.planted
@pytest.mark.parametrize("model", ["odd-text", "odd-list", "odd-less"])
def test_a_count_that_is_none_fails_its_request_and_no_other(ran, model):
    run = ran(model, stream=False)
    assert [record.outcome for record in run.records] == [RequestOutcome.ERROR] * 3
    assert "a number of tokens as prompt_tokens" in run.records[0].error


@pytest.mark.parametrize("path", ["/models", "/completions"])
def test_a_server_that_takes_a_question_and_says_nothing_is_given_up(path):
    async def say_nothing(reader, writer):
        await reader.read()
        writer.close()

    async def ask():
        async with await asyncio.start_server(say_nothing, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            transport = OpenAITransport(
                Target(transport="openai", address=f"http://127.0.0.1:{port}/v1", timeout_s=0.3)
            )
            workload = Workload(name="w", model="m", inputs=Inputs(kind="texts", texts=("a",)))
            try:
                if path == "/models":
                    await transport.model("m")
                else:
                    await transport.probe_tokens(workload, None, RequestInput(tensors={TEXT_INPUT: text_tensor(["a"])}))
            finally:
                await transport.close()

    with pytest.raises(LateError, match=f"{path} in 0.3 s"):
        asyncio.run(asyncio.wait_for(ask(), 30))


@pytest.mark.parametrize("body", [[1], {"usage": [1]}, {"usage": "x"}, {"usage": {"prompt_tokens": -1}}])
def test_a_probe_whose_answer_counts_nothing_is_the_servers_failure(body):
    with pytest.raises(ServerError, match="look at the server"):
        _count_tokens(body, "prompt_tokens")


def test_a_count_that_is_null_is_none(ran):
    assert [record.outcome for record in ran("odd-null", stream=False).records] == [RequestOutcome.OK] * 3


def test_an_error_within_a_stream_is_what_its_word_says(ran):
    (record, *_) = ran("late").records
    assert record.outcome is RequestOutcome.DEADLINE_EXCEEDED and "its time is over" in record.error


@pytest.mark.planted
def test_of_a_long_error_the_beginning_is_kept(ran):
    (record, *_) = ran("wordy", stream=False).records
    assert record.outcome is RequestOutcome.ERROR and len(record.error) <= 2000
