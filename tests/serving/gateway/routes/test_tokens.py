"""``/tokenize`` and ``/detokenize``: what they ask of a server, and how they answer as vLLM does."""

import asyncio

import pytest

from tests.serving.gateway.fake_triton import FakeTriton, config_of, delta, gateway_of, integers, raw

MODEL = config_of("writer", "generate", max_length="64", chat_template="<s>{{ messages[0].content }}")
ECHO = delta(
    "the cat",
    finish_reason="length",
    output_ids=integers([[0, 7, 8]]),
    token_bytes=raw([[b"<s>", b"the", b" cat"]]),
    num_prompt_tokens=integers([[3]]),
)


TRANSLATOR = config_of("translator", "translate", max_source_length="24")
ENCODER = config_of("encoder", "embed", [("text_input", (1,))], [("token_ids", (-1,))], max_batch=8, max_length="24")


def ask(path, **sent):
    server = FakeTriton(MODEL, TRANSLATOR, ENCODER, deltas=[ECHO], answer={"token_ids": integers([[2, 7, 3]])})

    async def answer():
        async with gateway_of(server) as client:
            return await client.post(path, json={"model": "writer", **sent})

    answered = asyncio.run(answer())
    echoes = [one for one in server.requests if "exclude_input_in_output" in {tensor.name for tensor in one.inputs}]
    return answered, echoes[0] if echoes else None  # others are canaries


def test_a_text_becomes_tokens():
    answered, asked = ask("/tokenize", prompt="the cat")
    assert answered.json() == {"count": 3, "max_model_len": 64, "tokens": [0, 7, 8]}
    assert "rendered" not in asked.parameters
    assert "max_tokens" in {tensor.name for tensor in asked.inputs}


def test_their_texts_come_where_they_are_asked_for():
    answered, asked = ask("/tokenize", prompt="the cat", return_token_strs=True, add_special_tokens=False)
    assert answered.json()["token_strs"] == ["<s>", "the", " cat"] and asked.parameters["rendered"].bool_param


def test_a_chat_becomes_those_of_its_template():
    answered, asked = ask("/tokenize", messages=[{"role": "user", "content": "the cat"}])
    assert answered.json()["tokens"] == [0, 7, 8] and asked.parameters["rendered"].bool_param
    assert any(content.endswith(b"<s>the cat") for content in asked.raw_input_contents)


def test_tokens_become_a_text():
    answered, asked = ask("/detokenize", tokens=[0, 7, 8])
    assert answered.json() == {"prompt": "the cat"}
    assert any(tensor.name == "input_ids" for tensor in asked.inputs)


def test_a_source_of_a_translator_becomes_tokens_and_tokens_a_text():
    answered, _ = ask("/tokenize", model="translator", prompt="the cat", return_token_strs=True)
    strs = ["<s>", "the", " cat"]
    assert answered.json() == {"count": 3, "max_model_len": 24, "tokens": [0, 7, 8], "token_strs": strs}
    answered, _ = ask("/detokenize", model="translator", tokens=[7, 8])
    assert answered.json() == {"prompt": "the cat"}


def test_a_text_to_embed_becomes_tokens():
    answered, _ = ask("/tokenize", model="encoder", prompt="the cat")
    assert answered.json() == {"count": 3, "max_model_len": 24, "tokens": [2, 7, 3]}


CHAT = [{"role": "user", "content": "a"}]


@pytest.mark.parametrize(
    ("path", "sent", "param"),
    [
        ("/tokenize", {"model": "translator", "messages": CHAT}, "messages"),
        ("/tokenize", {"model": "encoder", "messages": CHAT}, "messages"),
        ("/tokenize", {"model": "translator", "prompt": "a", "add_special_tokens": False}, "add_special_tokens"),
        ("/tokenize", {"model": "encoder", "prompt": "a", "return_token_strs": True}, "return_token_strs"),
        ("/detokenize", {"model": "encoder", "tokens": [1]}, "model"),
    ],
)
def test_what_a_models_task_cannot_is_refused_by_name(path, sent, param):
    answered, _ = ask(path, **sent)
    assert (answered.status_code, answered.json()["error"]["param"]) == (400, param), answered.text


@pytest.mark.parametrize(
    ("path", "sent", "found"),
    [
        ("/tokenize", {}, "prompt or messages"),
        ("/tokenize", {"prompt": "a", "messages": [{"role": "user", "content": "a"}]}, "prompt or messages"),
        ("/detokenize", {"tokens": []}, "tokens"),
        ("/detokenize", {"tokens": [-1]}, "tokens"),
    ],
)
def test_what_cannot_be_is_refused(path, sent, found):
    answered, _ = ask(path, **sent)
    assert answered.status_code == 400 and found in answered.json()["error"]["message"]
