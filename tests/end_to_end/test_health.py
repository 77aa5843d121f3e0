import dataclasses
import json

import pytest
from tritonclient.utils import InferenceServerException

from clients.health import canary, health, require_healthy
from models.errors import ServerError
from tests.conftest import DATES, DIGITS
from tests.end_to_end.asking import ask, python_m


def test_every_model_answers_its_example(server):
    results = ask(server, health)
    assert {result.name: result.found for result in results} == {DIGITS: "3", DATES: "1997-03-03"}
    assert all(result.healthy for result in results)
    require_healthy(results, {DIGITS, DATES})


def test_a_wrong_answer_is_not_healthy(server):
    async def expecting_another(client):
        model = await client.model(DATES)
        example = {**model.parameters["example"], "answer": "2001-01-01"}
        return await canary(client, dataclasses.replace(model, parameters={**model.parameters, "example": example}))

    result = ask(server, expecting_another)
    assert not result.healthy
    with pytest.raises(ServerError, match="1997-03-03"):
        require_healthy([result], set())


def test_a_model_that_is_missing_is_not_healthy(server):
    with pytest.raises(ServerError, match=r"no \['swin'\]"):
        require_healthy(ask(server, health), {DIGITS, "swin"})


def test_the_command_says_ok_for_each_model(server):
    told = python_m("clients", "health", "--server", server.grpc)
    assert told.returncode == 0
    assert told.stdout.count(": ok, ") == 2


def test_the_command_prints_json_for_scripts(server):
    told = python_m("clients", "health", "--server", server.grpc, "--json")
    assert [json.loads(line)["healthy"] for line in told.stdout.splitlines()] == [True, True]


def test_nobody_can_load_a_model_over_the_network(server):
    async def load(client):
        await client._client.load_model(DIGITS)

    with pytest.raises(InferenceServerException, match="not allowed"):
        ask(server, load)


def test_a_server_that_is_not_there_is_status_1():
    refused = python_m("clients", "health", "--server", "127.0.0.1:9")
    assert refused.returncode == 1
    assert "start it" in refused.stderr
