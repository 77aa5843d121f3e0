"""What a refusal says to somebody who speaks HTTP: what was found, and what to send."""

import asyncio
import json

import pytest

from serving.gateway.middleware.keys import new_key
from tests.serving.gateway.fake_triton import FakeTriton, config_of, delta, gateway_of

MODELS = [config_of("writer", "generate", max_length="64"), config_of("embedder", "embed")]
BODY = {"model": "writer", "prompt": "a"}


def message_of(method, path, status, choices=(), **sent):
    async def ask():
        async with gateway_of(FakeTriton(*MODELS, deltas=[delta()]), **dict(choices)) as client:
            return await client.request(method, path, **sent)

    answer = asyncio.run(ask())
    assert answer.status_code == status, answer.text
    return answer.json()["error"]["message"]


@pytest.mark.parametrize("found", [None, "text/plain", "application/x-www-form-urlencoded"])
def test_a_body_of_another_type_is_told_the_header(found):
    headers = {"content-type": found} if found else {}
    message = message_of("POST", "/v1/completions", 415, content=json.dumps(BODY), headers=headers)
    expected = f"expected Content-Type: application/json; found {found or 'none'}; send that header with the body"
    assert message == expected


@pytest.mark.parametrize(
    ("body", "found"), [("", "no body"), ("[1]", "a list"), ('"a"', "a text"), ("3", "a number"), ("null", "null")]
)
def test_a_body_that_is_no_object_is_told_what_it_is(body, found):
    headers = {"content-type": "application/json"}
    message = message_of("POST", "/v1/completions", 400, content=body, headers=headers)
    assert message == f'expected an object of JSON; found {found}; send one, as {{"model": …}}'


USER = {"role": "user", "content": "a"}


@pytest.mark.parametrize(
    ("path", "fields", "message"),
    [
        ("completions", {"prompt": ["a"] * 65}, "prompt: List should have at most 64 items after validation, not 65"),
        ("completions", {"prompt": [1, -1]}, "prompt.1: Input should be greater than or equal to 0"),
        ("completions", {"prompt": None}, "prompt: Field required"),
        ("completions", {"prompt": 5}, "prompt: Input should be a valid string"),
        ("completions", {"prompt": "a", "stop": ["a", ""]}, "stop.1: String should have at least 1 character"),
        ("completions", {"prompt": "a", "guided_json": 5}, "guided_json: expected an object"),
        ("chat/completions", {"messages": [USER], "tool_choice": "always"}, "tool_choice: Input should be 'none', "),
        (
            "chat/completions",
            {"messages": [{**USER, "content": [{"type": "image_url"}]}]},
            "messages.0.content.0.type: Input should be 'text'",
        ),
        (
            "responses",
            {"input": [{"type": "reasoning", "summary": []}]},
            "input.0.type: Input should be 'function_call' or 'function_call_output' or 'message'",
        ),
    ],
)
def test_a_field_of_several_kinds_is_told_what_is_wrong_with_the_kind_that_was_meant(path, fields, message):
    assert message_of("POST", f"/v1/{path}", 400, json={"model": "writer", **fields}).startswith(message)


def test_nulls_are_fields_that_are_left_out_as_openais_own_client_sends_them():
    nulls = dict.fromkeys(("stream", "echo", "n", "stop", "audio"))
    message_of_nothing = message_of("POST", "/v1/completions", 400, json={**BODY, **nulls, "prompt": None})
    assert message_of_nothing == "prompt: Field required"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("writr", 'no server has a model "writr"; did you mean "writer"? GET /v1/models lists them'),
        ("l'm\n", 'no server has a model "l\'m\\n"; GET /v1/models lists them'),
        ("embedder", 'model "embedder" can embed; it cannot generate; send it to /v1/embeddings'),
    ],
)
def test_another_model_is_told_where_models_are(name, message):
    assert message_of("POST", "/v1/completions", 404, json={**BODY, "model": name}) == message


def test_so_it_is_where_a_model_is_looked_up():
    assert message_of("GET", "/v1/models/writr", 404).startswith('no server has a model "writr"; did you mean "writer"')


@pytest.mark.parametrize(
    ("sent", "found"),
    [("", "none"), ("Bearer wrong", "one that is not among its keys"), ("Basic YTpi", "the scheme Basic")],
)
def test_a_wrong_key_is_told_what_is_wrong_with_it(tmp_path, sent, found):
    new_key(tmp_path / "keys.json", "ann")
    headers = {"authorization": sent} if sent else {}
    message = message_of("GET", "/v1/models", 401, {"keys": tmp_path / "keys.json"}, headers=headers)
    assert message.startswith(f"expected an API key in Authorization: Bearer …; found {found}; ask")


@pytest.mark.parametrize(
    ("method", "path", "status", "message"),
    [
        ("POST", "/v1/completion", 404, "no route /v1/completion; found POST; GET /openapi.json lists the routes"),
        ("GET", "/v1/embeddings", 405, "/v1/embeddings takes POST; found GET; GET /openapi.json lists the routes"),
    ],
)
def test_another_path_or_method_is_told_where_the_routes_are(method, path, status, message):
    assert message_of(method, path, status) == message


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        ({"stream_options": 3}, "stream_options: expected an object"),
        ({"temperature": 0, "n": 2, "ignore_eos": True}, "found n = 2, ignore_eos = true; leave"),
    ],
)
def test_no_message_is_about_python(sent, message):
    assert message in message_of("POST", "/v1/completions", 400, json=BODY | sent)
