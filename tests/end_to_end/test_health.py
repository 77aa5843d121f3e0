import dataclasses
import json
from pathlib import Path

import pytest
from tritonclient.utils import InferenceServerException

from attendant.errors import ServerError
from clients.health import canary, health, require_healthy
from serving.processes import OOM_SCORE
from serving.triton.server.workers import _worker_at, engines_of
from tests.conftest import DATES, DIGITS, EVERY_TASK, LANGUAGE_MODEL, TEXT_ENCODER
from tests.end_to_end.asking import ask, python_m


def asked_with(server, name, example=None, **changes):
    """The health of a model whose configuration says something else."""

    async def canary_of_another(client):
        model = await client.model(name)
        changed = dataclasses.replace(model, parameters={**model.parameters, "example": example}, **changes)
        return await canary(client, changed)

    return ask(server, canary_of_another)


def example_of(server, name):
    return ask(server, lambda client: client.model(name)).parameters["example"]


def test_every_model_answers_its_example(server):
    results = {result.name: result for result in ask(server, health)}
    assert (results[DIGITS].found, results[DATES].found) == ("3", "1997-03-03")
    assert results[LANGUAGE_MODEL].found == example_of(server, LANGUAGE_MODEL)["answer"]
    first = example_of(server, TEXT_ENCODER)["answer"][0]
    assert results[TEXT_ENCODER].found.startswith(f"[{first:.4f}, ") and "of 16" in results[TEXT_ENCODER].found
    assert all(result.healthy for result in results.values())
    require_healthy(list(results.values()), set(EVERY_TASK))


def test_all_processes_that_compute_are_as_likely_to_be_ended_where_memory_runs_out(server, repository_of_every_task):
    scores = {}
    for entry in Path("/proc").glob("[0-9]*"):
        worker = _worker_at(int(entry.name))
        if worker is not None and str(repository_of_every_task) in (entry / "cmdline").read_text():
            computing = engines_of([worker]) or [worker]
            scores[worker.model] = {int(Path(f"/proc/{one.pid}/oom_score_adj").read_text()) for one in computing}
    assert scores == {name: {int(OOM_SCORE)} for name in EVERY_TASK}


@pytest.mark.planted
@pytest.mark.parametrize(("name", "answer"), [(DIGITS, "4"), (DATES, "2001-01-01"), (LANGUAGE_MODEL, "x")])
def test_a_wrong_answer_is_not_healthy(server, name, answer):
    result = asked_with(server, name, {**example_of(server, name), "answer": answer})
    assert not result.healthy
    with pytest.raises(ServerError, match=f"the right answer from '{name}'"):
        require_healthy([result], set())


@pytest.mark.parametrize(("error", "healthy"), [(5e-4, True), (2e-3, False)])
def test_a_vector_may_differ_by_rounding_and_no_more(server, error, healthy):
    example = example_of(server, TEXT_ENCODER)
    answer = [*example["answer"][:7], example["answer"][7] + error]
    assert asked_with(server, TEXT_ENCODER, {**example, "answer": answer}).healthy == healthy


@pytest.mark.parametrize("name", EVERY_TASK)
@pytest.mark.parametrize("example", [None, {}])
def test_a_model_without_an_example_has_to_answer_something_well_formed(server, name, example):
    result = asked_with(server, name, example)
    assert result.healthy and result.found


def test_a_model_that_refuses_what_is_harmless_is_not_healthy_and_says_why(server):
    result = asked_with(server, DATES, {"inputs": {"text": "§"}})
    assert not result.healthy
    assert "vocabulary" in result.found


def test_a_vector_of_another_width_than_stated_is_not_healthy(server):
    assert not asked_with(server, TEXT_ENCODER, outputs={"pooled": (17,)}).healthy


def test_a_model_that_is_missing_is_not_healthy(server):
    with pytest.raises(ServerError, match=r"no \['swin'\]"):
        require_healthy(ask(server, health), {DIGITS, "swin"})


def test_the_command_says_ok_in_one_line_for_each_model(server):
    told = python_m("clients", "health", "--server", server.grpc)
    assert told.returncode == 0
    assert told.stdout.count(": ok, ") == len(told.stdout.splitlines()) == len(EVERY_TASK)


def test_the_command_prints_json_for_scripts(server):
    told = python_m("clients", "health", "--server", server.grpc, "--json")
    assert [json.loads(line)["healthy"] for line in told.stdout.splitlines()] == [True] * len(EVERY_TASK)


def test_nobody_can_load_a_model_over_the_network(server):
    async def load(client):
        await client._client.load_model(DIGITS)

    with pytest.raises(InferenceServerException, match="restricted"):
        ask(server, load)


def test_a_server_that_is_not_there_is_status_1():
    refused = python_m("clients", "health", "--server", "127.0.0.1:9")
    assert refused.returncode == 1
    assert "start one" in refused.stderr
