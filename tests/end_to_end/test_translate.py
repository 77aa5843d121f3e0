import asyncio
import json
import urllib.error

import numpy as np
import pytest

from attendant.errors import InputError
from attendant.sampling_params import SamplingParams
from clients.translate import Translator
from models.train.date_data import held_out
from tests.conftest import DATES
from tests.end_to_end.asking import ask, counted, post, python_m, until


async def pieces(client, text, max_tokens=None):
    translator = await Translator.find(client)
    return [piece async for piece in translator.stream(text, SamplingParams(max_tokens=max_tokens))]


def test_tokens_arrive_as_they_come_and_the_last_piece_says_why(server):
    received = ask(server, lambda client: pieces(client, "3rd of march 1997"))
    assert "".join(piece.text for piece in received) == "1997-03-03"
    assert all(len(piece.token_ids) == len(piece.text) for piece in received)
    assert received[-1].finish_reason == "stop"


def test_a_limit_ends_the_stream(server):
    received = ask(server, lambda client: pieces(client, "3rd of march 1997", 4))
    assert "".join(piece.text for piece in received) == "1997"
    assert received[-1].finish_reason == "length"


def test_requests_at_the_same_time_do_not_mix(server):
    pairs = held_out(40)

    async def together(client):
        translator = await Translator.find(client)
        return await asyncio.gather(*(translator.translate(text) for text, _ in pairs))

    answers = ask(server, together)
    assert sum(answer == truth for answer, (_, truth) in zip(answers, pairs, strict=True)) >= 39


@pytest.mark.parametrize(
    ("text", "limit", "says"),
    [
        ("", None, "at least one token"),
        ("3rd öf märch 1997", None, r"\['ä', 'ö'\]"),
        ("march " * 30, None, "at most 48 tokens"),
        ("3rd of march 1997", 99, "max_tokens from 1 to 15"),
    ],
)
def test_a_request_that_cannot_be_decoded_is_refused_with_the_reason(server, text, limit, says):
    with pytest.raises(InputError, match=says):
        ask(server, lambda client: pieces(client, text, limit))


def test_a_model_that_was_exported_without_its_attention_refuses_to_show_it(server):
    async def explained(client):
        return await anext((await Translator.find(client)).stream("3rd of march 1997", SamplingParams(explain=True)))

    with pytest.raises(InputError, match="--explain"):
        ask(server, explained)


def test_a_refused_request_leaves_the_others_alone(server):
    async def mixed(client):
        translator = await Translator.find(client)
        texts = ["3rd of march 1997", "§§§", "march 3 1997"]
        return await asyncio.gather(*(translator.translate(text) for text in texts), return_exceptions=True)

    first, error, last = ask(server, mixed)
    assert (first, last) == ("1997-03-03", "1997-03-03")
    assert isinstance(error, InputError)


def test_leaving_the_loop_early_cancels_and_the_next_request_is_answered(server):
    async def impatient(client):
        translator = await Translator.find(client)
        for _ in range(20):
            stream = translator.stream("3rd of march 1997")
            await anext(stream)
            await stream.aclose()
        answer = await translator.translate("3rd of march 1997")
        return answer, await until(lambda: counted(server, DATES, "attendant_num_requests_running") == 0)

    assert ask(server, impatient) == ("1997-03-03", True)


@pytest.mark.parametrize("axis", [0, 1], ids=["two rows", "two in a row"])
def test_two_texts_in_one_request_are_refused(server, axis):
    async def two(client):
        texts = np.array([[b"march 3 1997"]], dtype=object).repeat(2, axis=axis)
        return [out async for out in client.stream(DATES, {"text_input": texts})]

    with pytest.raises(InputError):
        ask(server, two)


def test_tritons_generate_endpoint_gives_the_whole_answer(server):
    answer = json.loads(post(server, f"{DATES}/generate", {"text_input": "3rd of march 1997"}))
    assert (answer["text_output"], answer["finish_reason"]) == ("1997-03-03", "stop")


def test_tritons_generate_stream_endpoint_gives_server_sent_events(server):
    events = post(server, f"{DATES}/generate_stream", {"text_input": "3rd of march 1997", "stream": True})
    texts = [json.loads(line.removeprefix("data: "))["text_output"] for line in events.splitlines() if line]
    assert "".join(texts) == "1997-03-03"


def test_the_command_answers_each_line_of_standard_input(server):
    told = python_m("clients", "translate", "--server", server.grpc, text="3rd of march 1997\nMarch 3 1997\n")
    assert told.returncode == 0, told.stderr
    assert told.stdout == "1997-03-03\n1997-03-03\n"


def test_the_command_prints_json_for_scripts(server):
    told = python_m("clients", "translate", "3rd", "of", "march", "1997", "--server", server.grpc, "--json")
    shown = json.loads(told.stdout)
    assert len(shown.pop("token_ids")) == len("1997-03-03")
    assert shown == {"text": "3rd of march 1997", "candidate": 0, "answer": "1997-03-03", "finish_reason": "stop"}


@pytest.mark.parametrize(
    ("text", "says"), [("", "an empty standard input"), ("§\n", "'§'"), ("\n", "at least one token")]
)
def test_a_text_that_cannot_be_translated_is_one_line_and_status_2(server, text, says):
    refused = python_m("clients", "translate", "--server", server.grpc, text=text)
    assert refused.returncode == 2, refused.stderr
    assert refused.stderr.count("\n") == 1
    assert says in refused.stderr


def test_an_http_client_gets_the_reason_too(server):
    with pytest.raises(urllib.error.HTTPError) as refused:
        post(server, f"{DATES}/generate", {"text_input": "§"})
    with refused.value as answer:
        assert "characters" in answer.read().decode()
