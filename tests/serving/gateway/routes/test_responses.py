"""``/v1/responses`` as the official client asks it, whole and as a stream."""

import asyncio

import pytest
from openai import AsyncOpenAI, BadRequestError

from serving.gateway.tools import HERMES
from tests.serving.gateway.fake_triton import gateway_of, texts
from tests.serving.gateway.test_tools import ADD, Server, call, calls, prompt_to

TOOLS = [{"type": "function", "name": "add", "parameters": ADD, "strict": True}]


def respond(server, use, **asked):
    async def ask():
        async with gateway_of(server) as http:
            client = AsyncOpenAI(base_url="http://127.0.0.1:8080/v1", api_key="none", http_client=http, max_retries=0)
            return await use(client.responses, {"model": "chatty", "input": "user: hi", **asked})

    return asyncio.run(ask())


async def whole(responses, body):
    return await responses.create(**body)


async def streamed(responses, body):
    async with responses.stream(**body) as stream:
        kinds = [event.type async for event in stream]
        assert kinds[:2] == ["response.created", "response.in_progress"]
        assert kinds[-1] == "response.completed"
        return await stream.get_final_response()


async def raw(responses, body):
    numbers = [event.sequence_number async for event in await responses.create(**body, stream=True)]
    assert numbers == list(range(len(numbers))) and len(numbers) > 5


both = pytest.mark.parametrize("use", [whole, streamed])


@both
def test_an_answer_is_a_message(use):
    answer = respond(Server("hello"), use, instructions="be user", metadata={"a": "b"}, store=True)
    assert (answer.output_text, answer.status, answer.metadata) == ("hello", "completed", {"a": "b"})
    assert answer.usage.input_tokens == 3 and answer.usage.total_tokens == 3 + answer.usage.output_tokens


@both
def test_calls_are_items_behind_the_text(use):
    answer = respond(Server("so " + calls(HERMES, call(HERMES))), use, tools=TOOLS)
    message, called = answer.output
    assert message.content[0].text == "so " and (called.name, called.arguments) == ("add", '{"a": 1}')


def test_a_stream_says_a_calls_name_before_its_arguments_which_come_as_they_are_written():
    async def events(responses, body):
        return [event async for event in await responses.create(**body, stream=True)]

    said = "so " + calls(HERMES, call(HERMES, arguments='{"a": 12}'), call(HERMES)) + "\nand"
    found = respond(Server(said), events, tools=TOOLS)
    added = [event.item for event in found if event.type == "response.output_item.added"]
    assert [(item.type, getattr(item, "arguments", None)) for item in added] == [
        *(("message", None), ("function_call", ""), ("function_call", ""), ("message", None))
    ]
    deltas = [event for event in found if event.type == "response.function_call_arguments.delta"]
    for place, (item, arguments) in enumerate(zip(added[1:3], ('{"a": 12}', '{"a": 1}'), strict=True), start=1):
        own = [event for event in deltas if event.item_id == item.id]
        assert [event.delta for event in own] == list(arguments) and {event.output_index for event in own} == {place}
    done = [event.item for event in found if event.type == "response.output_item.done"]
    assert done == found[-1].response.output and [item.type for item in done] == [item.type for item in added]
    whole_answer = respond(Server(said), whole, tools=TOOLS)
    assert [(item.type, getattr(item, "arguments", None)) for item in whole_answer.output] == [
        (item.type, getattr(item, "arguments", None)) for item in done
    ]


def test_an_answer_that_is_cut_is_incomplete():
    server = Server("hel")
    server.deltas[-1]["finish_reason"] = texts("length")
    answer = respond(server, whole, max_output_tokens=3)
    assert (answer.status, answer.incomplete_details.reason) == ("incomplete", "max_output_tokens")


def test_a_call_that_is_cut_is_incomplete_and_may_come_back():
    server = Server("so " + calls(HERMES, call(HERMES))[: -len("1}}\n</tool_call>")])
    server.deltas[-1]["finish_reason"] = texts("length")
    answer = respond(server, whole, tools=TOOLS)
    assert [item.status for item in answer.output] == ["completed", "incomplete"]
    said = [{"role": "user", "content": "hi"}, *(item.model_dump() for item in answer.output)]
    server = Server("hello")
    assert respond(server, whole, input=[*said, {"role": "user", "content": "go on"}]).output_text == "hello"
    assert prompt_to(server).count("add") == 0


def test_events_are_numbered():
    respond(Server("hello"), raw)


def test_what_was_answered_may_come_back():
    server = Server("3")
    items = [
        {"role": "user", "content": [{"type": "input_text", "text": "user: 1 and 2"}]},
        {"type": "message", "id": "m", "status": "completed", "role": "assistant", "content": "so"},
        {"type": "function_call", "id": "f", "call_id": "c1", "name": "add", "arguments": '{"a": 2}'},
        {"type": "function_call_output", "call_id": "c1", "output": "3"},
    ]
    respond(server, whole, input=items, tools=TOOLS)
    prompt = prompt_to(server)
    assert '"content": "so", "tool_calls": [' in prompt and '"tool_call_id": "c1"' in prompt


def test_what_would_have_to_be_kept_is_refused_by_name():
    with pytest.raises(BadRequestError, match="previous_response_id: a field that is not supported"):
        respond(Server("a"), whole, previous_response_id="resp_1")
