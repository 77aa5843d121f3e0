import asyncio
import json

import numpy as np
import pytest
from tokenizers import Tokenizer

from attendant.errors import InputError, UnknownNameError
from attendant.manifest import Manifest
from attendant.sampling_params import SamplingParams
from clients.generate import Generator
from models.checkpoints.resolve import checkpoint_named
from tests.conftest import DATES, LANGUAGE_MODEL
from tests.end_to_end.asking import ask, post, python_m
from tests.text_checkpoints import CAPACITY, OTHER_PROMPT, PROMPT, SENTENCES, STOPS_AFTER, eager_greedy


@pytest.fixture(scope="module")
def eager(language_model):
    """From a prompt to the tokens and the text of the eager model's whole answer."""
    manifest = Manifest.read(language_model)
    model, end = checkpoint_named(manifest.source).model, manifest.details["end_tokens"]
    tokenizer = Tokenizer.from_file(str(language_model / "tokenizer.json"))

    def answer(text):
        prompt = tokenizer.encode(text).ids
        tokens = eager_greedy(model, prompt, CAPACITY - len(prompt), end)
        return tokens, tokenizer.decode(tokens)

    return answer


async def pieces(client, text, **options):
    generator = await Generator.find(client, LANGUAGE_MODEL)
    return [piece async for piece in generator.stream(text, SamplingParams(**options))]


async def responses(client, **inputs):
    """Every response to one request, as the server sends it."""
    return [outputs async for outputs in client.stream(LANGUAGE_MODEL, inputs)]


def texts(*values):
    return np.array([[value.encode() for value in values]], dtype=object)


@pytest.mark.parametrize(("prompt", "reason"), [(PROMPT, "stop"), (OTHER_PROMPT, "length"), (SENTENCES[3], "length")])
def test_streamed_tokens_are_those_of_the_eager_model(server, eager, prompt, reason):
    received = ask(server, lambda client: pieces(client, prompt))
    tokens, text = eager(prompt)
    assert [token for piece in received for token in piece.token_ids] == tokens
    assert "".join(piece.text for piece in received) == text
    assert [piece.finish_reason for piece in received] == [""] * (len(received) - 1) + [reason]


def test_every_response_has_its_tensors_with_a_batch_of_one_in_front(server):
    asked = {"text_input": texts(PROMPT), "stream": np.array([[True]])}
    for outputs in ask(server, lambda client: responses(client, **asked)):
        assert outputs["output_ids"].shape[0] == 1 and outputs["output_ids"].dtype == np.int32
        assert outputs["text_output"].shape == outputs["finish_reason"].shape == (1, 1)


def test_an_answer_in_one_response_is_the_streamed_one(server, eager):
    (whole,) = ask(server, lambda client: responses(client, text_input=texts(OTHER_PROMPT)))
    tokens, text = eager(OTHER_PROMPT)
    assert whole["output_ids"].tolist() == [tokens]
    assert whole["text_output"][0, 0].decode() == text
    assert whole["finish_reason"].tolist() == [[b"length"]]


@pytest.mark.parametrize(("limit", "reason"), [(1, "length"), (STOPS_AFTER, "length"), (STOPS_AFTER + 1, "stop")])
def test_a_limit_ends_the_stream(server, eager, limit, reason):
    received = ask(server, lambda client: pieces(client, PROMPT, max_tokens=limit))
    assert [token for piece in received for token in piece.token_ids] == eager(PROMPT)[0][:limit]
    assert received[-1].finish_reason == reason


def test_requests_at_the_same_time_do_not_mix(server, eager):
    prompts = [PROMPT, OTHER_PROMPT, *(f"{word} the cat" for word in SENTENCES[0].split())]

    async def together(client):
        generator = await Generator.find(client, LANGUAGE_MODEL)
        return await asyncio.gather(*(generator.generate(prompt) for prompt in prompts))

    assert ask(server, together) == [eager(prompt)[1] for prompt in prompts]


def test_streams_left_early_leave_the_server_well(server, eager):
    async def impatient(client):
        generator = await Generator.find(client, LANGUAGE_MODEL)
        for _ in range(20):
            stream = generator.stream(OTHER_PROMPT)
            await anext(stream)
            await stream.aclose()
        return await generator.generate(PROMPT)

    assert ask(server, impatient) == eager(PROMPT)[1]


@pytest.mark.parametrize(
    ("prompt", "limit", "says"),
    [
        ("", None, "at least one token"),
        ("the" + " a" * CAPACITY, None, f"at most {CAPACITY - 1} tokens"),
        (PROMPT, CAPACITY, "max_tokens from 0 to 31, the cache's 40 positions less the prompt's 9"),
    ],
)
def test_a_request_beyond_the_cache_is_refused_with_the_reason(server, prompt, limit, says):
    with pytest.raises(InputError, match=says):
        ask(server, lambda client: pieces(client, prompt, max_tokens=limit))


def test_a_model_of_another_task_is_refused_by_name(server):
    with pytest.raises(UnknownNameError, match=f"model '{DATES}' can translate; it cannot generate"):
        ask(server, lambda client: Generator.find(client, DATES))


def test_tritons_generate_endpoint_gives_the_tokens_too(server, eager):
    answer = json.loads(post(server, f"{LANGUAGE_MODEL}/generate", {"text_input": PROMPT, "max_tokens": 3}))
    assert answer["output_ids"] == eager(PROMPT)[0][:3]


def test_tritons_generate_stream_endpoint_gives_every_token_once(server, eager):
    body = {"text_input": PROMPT, "stream": True}
    lines = post(server, f"{LANGUAGE_MODEL}/generate_stream", body).splitlines()
    events = [json.loads(line.removeprefix("data: ")) for line in lines if line]
    assert [token for event in events for token in np.atleast_1d(event["output_ids"])] == eager(PROMPT)[0]


def test_the_command_prints_the_continuation_of_each_line(server, eager):
    told = python_m("clients", "generate", "--server", server.grpc, text=f"{PROMPT}\n{OTHER_PROMPT}\n")
    assert told.returncode == 0, told.stderr
    assert told.stdout == "".join(f"{eager(prompt)[1]}\n" for prompt in (PROMPT, OTHER_PROMPT))


def test_the_command_prints_json_for_scripts(server, eager):
    words = ["--server", server.grpc, "--json", "--max-tokens", 4]
    told = python_m("clients", "generate", *PROMPT.split(), *words)
    value = json.loads(told.stdout)
    assert (value["text"], value["finish_reason"]) == (PROMPT, "length")
    assert eager(PROMPT)[1].startswith(value["answer"].rstrip("\ufffd"))


def test_a_prompt_that_is_too_long_is_one_line_and_status_2(server):
    refused = python_m("clients", "generate", "--server", server.grpc, text="a " * 99)
    assert refused.returncode == 2, refused.stderr
    assert refused.stderr.count("\n") == 1
    assert "at most 39 tokens" in refused.stderr
