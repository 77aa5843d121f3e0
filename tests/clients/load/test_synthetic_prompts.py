"""Synthetic prompts have the wished length by the server's own count, whatever its tokenizer and template are."""

import asyncio
import json

import numpy as np
import pytest
from starlette.responses import JSONResponse
from starlette.routing import Route

from attendant.errors import InputError
from clients.load.analysis.summary import summarize
from clients.load.flags import ArrivalFlags, LoadFlags, lay_over
from clients.load.run import run_load
from clients.load.scenario import Inputs, Workload
from clients.load.synthetic_prompts import create_synthetic
from tests.clients.load.test_openai_transport import serving


def made(endpoint="completions", count=lambda text: len(text.split()), **inputs):
    probed = []

    async def counted(one):
        text = " ".join(message["content"] for message in one.messages) if one.messages else one.text
        probed.append(text)
        return count(text)

    workload = Workload(
        name="w", model="m", endpoint=endpoint, inputs=Inputs(**{"kind": "synthetic", "number": 4, **inputs})
    )
    found, note = asyncio.run(create_synthetic(workload, np.random.default_rng(0), counted))
    return found, note, probed


@pytest.mark.parametrize("wished", [20, 128, 1000])
@pytest.mark.parametrize(
    ("count", "within"),
    [
        (lambda text: len(text.split()), 0),
        (lambda text: 11 + len(text.split()) * 7 // 5, 1),
        (lambda text: len(text) + 5, 50),
    ],
)
def test_a_prompt_has_the_wished_length(wished, count, within):
    _, _, probed = made(count=count, input_tokens=max(wished, 60))
    assert min(abs(count(text) - max(wished, 60)) for text in probed) <= within
    assert len(probed) <= 8


def test_prompts_differ_but_for_their_prefix_and_no_probe_is_sent_again():
    found, note, probed = made(input_tokens=50, prefix_tokens=20)
    texts = [one.text.split() for one in found]
    assert {len(words) for words in texts} == {50}
    assert len({tuple(words[:20]) for words in texts}) == 1
    assert len({tuple(words[20:]) for words in texts}) == len(texts)
    assert not {one.text for one in found} & set(probed)
    assert "50 tokens a prompt" in note
    assert "20 in common" in note


def test_turns_carry_all_messages_before_them():
    found, _, _ = made("chat", input_tokens=12, turns=3, number=2)
    assert [len(one.messages) for one in found] == [1, 3, 5] * 2
    assert found[2].messages[:3] == found[1].messages
    assert [one["role"] for one in found[2].messages] == ["user", "assistant", "user", "assistant", "user"]


def test_a_server_that_does_not_count_and_a_template_that_is_longer_are_said():
    with pytest.raises(InputError, match=r"usage\.prompt_tokens"):
        made(count=lambda text: 0, input_tokens=50)
    for odd in (lambda text: 9, lambda text: 1000 - len(text.split()), lambda text: 100 + len(text.split()) // 32):
        with pytest.raises(InputError, match=r"usage\.prompt_tokens.*by words"):
            made(count=odd, input_tokens=20_000)
    with pytest.raises(InputError, match="at least 31"):
        made(count=lambda text: 30 + len(text.split()), input_tokens=20)


def test_a_run_by_flags_against_a_server_that_counts():
    bodies = []

    async def listed(request):
        return JSONResponse({"data": [{"id": "m"}]})

    async def answered(request):
        bodies.append(json.loads(await request.body()))
        prompt, limit = bodies[-1]["messages"][-1]["content"], bodies[-1]["max_tokens"]
        usage = {"prompt_tokens": 9 + 2 * len(prompt.split()), "completion_tokens": limit}
        choice = {"message": {"content": "a"}, "text": "a", "finish_reason": "length"}
        if not bodies[-1].get("stream"):
            return JSONResponse({"choices": [choice], "usage": usage})
        event = {"choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": "length"}], "usage": usage}
        from starlette.responses import Response

        return Response(f"data: {json.dumps(event)}\n\ndata: [DONE]\n\n", media_type="text/event-stream")

    routes = [Route("/v1/models", listed), Route("/v1/chat/completions", answered, methods=["POST"])]

    async def run():
        async with serving(routes) as address:
            flags = LoadFlags(
                model="m", transport="openai", server=address, endpoint="chat", requests=5, warmup_s=0.0,
                input_tokens=101, output_tokens=6,
            )  # fmt: skip
            return await run_load(lay_over(None, flags, ArrivalFlags(concurrency=1)))

    found = asyncio.run(run())
    assert [(record.error, record.input_tokens, sum(record.tokens)) for record in found.records] == [("", 101, 6)] * 5
    assert "101 tokens a prompt of 46 words" in found.environment["synthetic prompts, m"]
    assert any("101 tokens a prompt" in remark for remark in summarize(found).validity.remarks)
    assert bodies[-1]["ignore_eos"] is True
    assert len({body["messages"][0]["content"] for body in bodies}) == len(bodies)
