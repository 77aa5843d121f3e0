"""How many tokens of a prompt a server's prefix cache held, as each route of language models says it."""

import asyncio
import json

import pytest

from tests.serving.gateway.fake_triton import FakeTriton, config_of, delta, gateway_of, integers

MODEL = config_of("writer", "generate", max_length="64", chat_template="{{ messages[0].content }}")
CHAT = {"messages": [{"role": "user", "content": "hi"}]}


def usage(path, asked, **counts):
    answers = [delta(num_input_tokens=integers([[40]]), num_output_tokens=integers([[1]]), **counts)]

    async def ask():
        async with gateway_of(FakeTriton(MODEL, deltas=answers)) as http:
            return await http.post(path, json={"model": "writer", **asked})

    answer = asyncio.run(ask())
    if "stream" not in asked:
        return answer.json()["usage"]
    events = [line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith("data: {")]
    last = json.loads(events[-1])
    return last.get("response", last)["usage"]


@pytest.mark.parametrize("stream", [{}, {"stream": True, "stream_options": {"include_usage": True}}])
@pytest.mark.parametrize(
    ("path", "asked", "count"), [("/v1/completions", {"prompt": "a"}, 32), ("/v1/chat/completions", CHAT, 32)]
)
def test_completions_and_chats_say_it_where_the_server_does(path, asked, count, stream):
    asked = {**asked, **stream}
    found = usage(path, asked, num_cached_tokens=integers([[count]]))
    assert found["prompt_tokens_details"] == {"cached_tokens": count} and found["prompt_tokens"] == 40
    assert "prompt_tokens_details" not in usage(path, asked)


def test_several_prompts_are_added_up():
    found = usage("/v1/completions", {"prompt": ["a", "b"]}, num_cached_tokens=integers([[32]]))
    assert (found["prompt_tokens"], found["prompt_tokens_details"]) == (80, {"cached_tokens": 64})


@pytest.mark.parametrize("stream", [{}, {"stream": True}])
def test_responses_say_it_always(stream):
    asked = {"input": "hi", **stream}
    for counts, expected in (({"num_cached_tokens": integers([[32]])}, 32), ({}, 0)):
        assert usage("/v1/responses", asked, **counts)["input_tokens_details"] == {"cached_tokens": expected}
