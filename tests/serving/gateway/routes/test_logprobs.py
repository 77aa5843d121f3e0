"""Log-probabilities as the official client reads them: texts, bytes, offsets, and those of the prompt."""

import asyncio
import json

from openai.types import Completion
from openai.types.chat import ChatCompletion

from tests.serving.gateway.fake_triton import FakeTriton, config_of, delta, floats, gateway_of, integers, raw, texts

MODEL = config_of("writer", "generate", max_length="64", chat_template="{{ messages[0].content }}")
PIECES, VALUES = [b"<s>", b" \xe2\x82", b"\xac", b" b"], [float("nan"), -0.5, -1.0, -2.0]
TOPS = [[-1, 9], [7, 9], [8, 9], [9, 6]]
PROMPTED = delta(
    "€ b",
    finish_reason="length",
    output_ids=integers([[0, 7, 8, 5]]),
    output_log_probs=floats([VALUES]),
    top_ids=integers([TOPS]),
    top_log_probs=floats([[[value, -3.0] for value in VALUES]]),
    token_bytes=raw([[*PIECES]]),
    top_token_bytes=raw([[[piece, b"x"] for piece in PIECES]]),
    text_offset=integers([[0, 0, 0, 1]]),
    num_prompt_tokens=integers([[3]]),
    num_input_tokens=integers([[3]]),
    num_output_tokens=integers([[1]]),
)


def ask(path, deltas, **sent):
    async def answer():
        async with gateway_of(FakeTriton(MODEL, deltas=deltas)) as client:
            return await client.post(path, json={"model": "writer", **sent})

    answered = asyncio.run(answer())
    assert answered.status_code == 200, answered.text
    if not sent.get("stream"):
        return answered.json()
    return [json.loads(line[6:]) for line in answered.text.splitlines() if line.startswith("data: {")]


def test_a_completion_says_them_by_the_texts_of_tokens_with_their_places():
    answer = Completion.construct(
        **ask("/v1/completions", [PROMPTED], prompt="€", echo=True, logprobs=2)
    )  # as the client does: null has no place in its types
    found = answer.choices[0].logprobs
    assert found.tokens == ["<s>", "bytes:\\x20\\xe2\\x82", "bytes:\\xac", " b"]
    assert found.token_logprobs == [None, *VALUES[1:]] and found.text_offset == [0, 0, 0, 1]
    assert found.top_logprobs[0] is None and found.top_logprobs[3] == {" b": -2.0, "x": -3.0}
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (3, 1)


def test_a_streams_places_are_those_of_the_whole_answer():
    first = {name: value for name, value in PROMPTED.items() if not name.startswith("top")}
    said = {"output_log_probs": floats([[-1.0]]), "token_bytes": raw([[b" c"]]), "text_offset": integers([[3]])}
    last = delta(" c", 6, **said, num_output_tokens=integers([[1]]))
    asked = {"prompt": "€", "echo": True, "logprobs": 0}
    deltas = [{**first, "finish_reason": texts("")}, last]
    events = ask("/v1/completions", deltas, stream=True, **asked)
    assert [event["choices"][0]["logprobs"]["text_offset"] for event in events] == [[0, 0, 0, 1], [3]]
    whole = ask("/v1/completions", deltas, **asked)
    assert whole["choices"][0]["logprobs"]["text_offset"] == [0, 0, 0, 1, 3]


def test_the_token_itself_is_among_the_most_probable_ones():
    other = {**PROMPTED, "top_token_bytes": raw([[[b"y", b"x"]] * 4])}
    found = ask("/v1/completions", [other], prompt="€", echo=True, logprobs=2)["choices"][0]["logprobs"]
    assert found["top_logprobs"][3] == {"y": -2.0, "x": -3.0, " b": -2.0}


def test_numbers_stand_for_tokens_where_that_is_asked_for_or_the_server_says_no_texts():
    old = {name: value for name, value in PROMPTED.items() if "bytes" not in name and name != "text_offset"}
    for deltas, more in (([PROMPTED], {"return_tokens_as_token_ids": True}), ([old], {})):
        found = ask("/v1/completions", deltas, prompt="€", echo=True, logprobs=2, **more)["choices"][0]["logprobs"]
        assert found["tokens"] == ["token_id:0", "token_id:7", "token_id:8", "token_id:5"]
        assert found["top_logprobs"][1] == {"token_id:7": -0.5, "token_id:9": -3.0}
        assert found["text_offset"] == ([0, 0, 0, 1] if more else None)


def test_a_chat_says_them_with_their_bytes():
    messages = [{"role": "user", "content": "a"}]
    said = delta(
        " b",
        5,
        output_log_probs=floats([[-2.0]]),
        token_bytes=raw([[b" b"]]),
        top_ids=integers([[[5]]]),
        top_log_probs=floats([[[-2.0]]]),
        top_token_bytes=raw([[[b" b"]]]),
    )
    answer = ask("/v1/chat/completions", [said], messages=messages, logprobs=True, top_logprobs=1)
    (token,) = ChatCompletion.model_validate(answer).choices[0].logprobs.content
    assert (token.token, token.bytes, token.logprob) == (" b", [32, 98], -2.0)
    assert token.top_logprobs[0].bytes == [32, 98]


def test_without_a_token_to_come_the_prompt_alone_is_answered():
    answer = ask("/v1/completions", [PROMPTED], prompt="€", echo=True, logprobs=0, max_tokens=0)
    assert answer["choices"][0]["finish_reason"] == "length"
