"""``/tokenize`` and ``/detokenize``: what they ask of a server, and how they answer as vLLM does."""

import asyncio
import threading

import numpy as np
import pytest

from serving.gateway import large_answers
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


def ask(path, model=MODEL, echo=ECHO, **sent):
    server = FakeTriton(model, TRANSLATOR, ENCODER, deltas=[echo], answer={"token_ids": integers([[2, 7, 3]])})

    async def answer():
        async with gateway_of(server) as client:
            return await client.post(path, json={"model": model.name, **sent})

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


def test_those_of_a_long_text_become_json_beside_the_event_loop(monkeypatch):
    threads, to_json = set(), large_answers.to_json

    def note_thread(value, **options):
        threads.add(threading.current_thread())
        return to_json(value, **options)

    monkeypatch.setattr(large_answers, "to_json", note_thread)
    tokens = np.arange(20_000)[None]
    long = delta("a", output_ids=integers(tokens), token_bytes=raw([[b"a"] * 20_000]))
    answered, _ = ask("/tokenize", echo=long, prompt="the cat", return_token_strs=True)
    assert answered.json()["tokens"] == tokens[0].tolist() and len(answered.json()["token_strs"]) == 20_000
    assert threads and threading.main_thread() not in threads


def test_special_tokens_are_read_in_a_text_where_that_is_said_and_those_of_the_model_are_put_around_it():
    _, asked = ask("/tokenize", prompt="the <s>cat", parse_special=True)
    assert "parse_special" in {tensor.name for tensor in asked.inputs} and "rendered" not in asked.parameters
    _, asked = ask("/tokenize", prompt="the <s>cat")
    assert "parse_special" not in {tensor.name for tensor in asked.inputs}


@pytest.mark.planted
@pytest.mark.parametrize(
    ("length", "short", "long"),
    [
        ("max_length", MODEL, config_of("writer", "generate", max_length="128", chat_template="<s>{{ messages }}")),
        ("max_source_length", TRANSLATOR, config_of("translator", "translate", max_source_length="48")),
    ],
)
def test_of_two_servers_the_one_that_made_the_tokens_says_how_many_there_may_be(length, short, long):
    def echo(size):
        return [{**ECHO, "output_ids": integers([[0, 7, size]])}]

    servers = [FakeTriton(one, deltas=echo(int(one.parameters[length].string_value))) for one in (short, long)]

    async def run():
        async with gateway_of(*servers) as client:
            answers = [await client.post("/tokenize", json={"model": short.name, "prompt": "a"}) for _ in range(4)]
            return [answer.json() for answer in answers]

    told = [(one["max_model_len"], one["tokens"][-1]) for one in asyncio.run(run())]
    assert all(most == token for most, token in told) and len(set(told)) == 2


def test_a_model_without_a_tokenizer_makes_no_text_of_tokens():
    numbers = config_of("writer", "generate", max_length="64", token_ids_only="true")
    answered, asked = ask("/detokenize", numbers, tokens=[0, 7])
    assert answered.status_code == 400 and "no tokenizer" in answered.json()["error"]["message"] and asked is None


def test_so_do_those_of_a_model_that_lost_its_tokenizer_since():
    numbers = config_of("writer", "generate", max_length="64", token_ids_only="true")
    server = FakeTriton(MODEL, deltas=[delta(token=9)])

    async def answers():
        async with gateway_of(server) as client:
            sent = {"model": "writer", "prompt": [0, 7]}
            before = await client.post("/v1/completions", json=sent)
            server.configs = {"writer": numbers}
            await asyncio.sleep(0.3)  # longer than a gateway believes what a server said
            return [
                one.json()["choices"][0].get("token_ids")
                for one in (before, await client.post("/v1/completions", json=sent))
            ]

    assert asyncio.run(answers()) == [None, [9]]


def test_completions_say_the_tokens_of_answers_where_there_is_no_text_or_that_is_asked_for():
    numbers = config_of("writer", "generate", max_length="64", token_ids_only="true")
    for model, sent, said in ((MODEL, {}, None), (MODEL, {"return_token_ids": True}, []), (numbers, {}, [])):
        (choice,) = ask("/v1/completions", model, prompt=[0, 7, 8], **sent)[0].json()["choices"]
        assert choice.get("token_ids") == said  # all three that the server says are the prompt's


def test_a_chat_becomes_those_of_its_template():
    answered, asked = ask("/tokenize", messages=[{"role": "user", "content": "the cat"}])
    assert answered.json()["tokens"] == [0, 7, 8] and asked.parameters["rendered"].bool_param
    assert any(content.endswith(b"<s>the cat") for content in asked.raw_input_contents)


def test_tokens_become_a_text():
    answered, asked = ask("/detokenize", tokens=[0, 7, 8])
    assert answered.json() == {"prompt": "the cat"}
    assert any(tensor.name == "input_ids" for tensor in asked.inputs)


def test_a_source_of_a_translator_becomes_tokens_and_tokens_a_text():
    answered, _ = ask("/tokenize", TRANSLATOR, prompt="the cat", return_token_strs=True)
    strs = ["<s>", "the", " cat"]
    assert answered.json() == {"count": 3, "max_model_len": 24, "tokens": [0, 7, 8], "token_strs": strs}
    answered, _ = ask("/detokenize", TRANSLATOR, tokens=[7, 8])
    assert answered.json() == {"prompt": "the cat"}


def test_a_text_to_embed_becomes_tokens():
    answered, _ = ask("/tokenize", ENCODER, prompt="the cat")
    assert answered.json() == {"count": 3, "max_model_len": 24, "tokens": [2, 7, 3]}


CHAT = [{"role": "user", "content": "a"}]


@pytest.mark.parametrize(
    ("path", "model", "sent", "param"),
    [
        ("/tokenize", TRANSLATOR, {"messages": CHAT}, "messages"),
        ("/tokenize", ENCODER, {"messages": CHAT}, "messages"),
        ("/tokenize", TRANSLATOR, {"prompt": "a", "add_special_tokens": False}, "add_special_tokens"),
        ("/tokenize", ENCODER, {"prompt": "a", "return_token_strs": True}, "return_token_strs"),
        ("/detokenize", ENCODER, {"tokens": [1]}, "model"),
    ],
)
def test_what_a_models_task_cannot_is_refused_by_name(path, model, sent, param):
    answered, _ = ask(path, model, **sent)
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
