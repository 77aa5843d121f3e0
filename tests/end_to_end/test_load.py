"""Load tests of the real server: every task, every transport, and what the server counted."""

import asyncio
import json
import subprocess
import sys

import pytest

from attendant.errors import InputError
from attendant.sampling_params import SamplingParams
from clients.load.arrivals import ClosedLoop, Poisson
from clients.load.record import RequestOutcome
from clients.load.run import run_load
from clients.load.scenario import Cancel, Expect, InProcess, Inputs, Scenario, Target, Workload
from serving.triton.repository.layout import write_repository
from tests.conftest import CAPTIONER, DATES, DIGITS, LANGUAGE_MODEL, TEXT_ENCODER
from tests.end_to_end.asking import settled
from tests.end_to_end.servers import started
from tests.text_checkpoints import CAPACITY

KNOWN = Expect(kind="example")
SAME = Expect(kind="same")
LONG = CAPACITY // 2
RUNS = 20
WORDS = Inputs(kind="random", number=4, size=3)
WORKLOADS = {
    DIGITS: Workload(name="digits", model=DIGITS, expect=KNOWN),
    DATES: Workload(name="dates", model=DATES, expect=KNOWN),
    CAPTIONER: Workload(name="captions", model=CAPTIONER, expect=KNOWN),
    LANGUAGE_MODEL: Workload(
        name="texts",
        model=LANGUAGE_MODEL,
        inputs=WORDS,
        expect=SAME,
        decoding=SamplingParams(max_tokens=6, ignore_eos=True),
    ),
    TEXT_ENCODER: Workload(name="vectors", model=TEXT_ENCODER, inputs=WORDS, expect=SAME),
}


def ran(server, *workloads, transport="grpc", target=None, **changes):
    address = server.grpc if transport == "grpc" else server.http
    target = Target(transport=transport, address=address, metrics=server.metrics, **(target or {}))
    scenario = {"arrivals": ClosedLoop(concurrency=4), "requests": 24, **changes}
    return asyncio.run(run_load(Scenario(workloads=workloads, target=target, **scenario)))


def outcomes(found):
    return {record.outcome for record in found.records}, {record.error for record in found.records}


def test_a_mix_of_every_task_is_answered_rightly(server):
    found = ran(server, *WORKLOADS.values(), arrivals=Poisson(rate=200), requests=100)
    assert outcomes(found) == ({RequestOutcome.OK}, {""})
    of = {record.workload: record for record in found.records}
    assert set(of) == {workload.name for workload in WORKLOADS.values()}
    assert (of["digits"].images, of["captions"].images, of["texts"].images) == (1, 1, 0)
    assert (sum(of["texts"].tokens), of["digits"].tokens) == (6, (0,))
    assert of["texts"].input_tokens > 0


@pytest.mark.parametrize("name", [DIGITS, DATES, LANGUAGE_MODEL, TEXT_ENCODER])
def test_http_answers_as_grpc_does(server, name):
    found = ran(server, WORKLOADS[name], transport="http")
    assert outcomes(found) == ({RequestOutcome.OK}, {""})
    if name == LANGUAGE_MODEL:
        assert {sum(record.tokens) for record in found.records} == {6}


def test_a_stream_of_images_is_no_matter_for_http(server):
    with pytest.raises(InputError, match="grpc"):
        ran(server, WORKLOADS[CAPTIONER], transport="http")


@pytest.mark.parametrize("transport", ["grpc", "http"])
def test_tensors_in_shared_memory_are_answered_alike(alone, transport, tmp_path):
    file = tmp_path / "admin.key"
    file.write_text(f"{alone.admin_key.name}={alone.admin_key.secret}\n")
    images = Workload(name="a", model=DIGITS, inputs=Inputs(kind="random", number=3, rows=2), expect=SAME)
    target = {"shared_memory": True, "admin_key_file": str(file)}
    found = ran(alone.endpoints, images, transport=transport, target=target)
    assert outcomes(found) == ({RequestOutcome.OK}, {""})
    assert found.environment["shared memory"] == "tensors of requests"
    assert alone.admin_key.secret not in json.dumps(found.scenario)


@pytest.mark.parametrize("transport", ["grpc", "http"])
def test_without_the_admin_key_tensors_are_sent_and_the_run_says_so(alone, transport):
    found = ran(alone.endpoints, WORKLOADS[DIGITS], transport=transport, target={"shared_memory": True})
    assert outcomes(found) == ({RequestOutcome.OK}, {""})
    assert "refused, tensors are sent" in found.environment["shared memory"]
    assert "admin_key_file" in found.environment["shared memory"]


@pytest.fixture(scope="module")
def alone(digits_artefact, tmp_path_factory):
    """A server whose counts are a run's alone: at the others' server a gateway's canaries ask as well."""
    repository = tmp_path_factory.mktemp("alone") / "repository"
    write_repository([digits_artefact], repository)
    with started(repository) as running:
        settled(running.endpoints, DIGITS, "nv_inference_request_success")
        yield running


@pytest.fixture
def asked_by_nobody_else(alone):
    settled(alone.endpoints, DIGITS, "nv_inference_request_success")
    return alone.endpoints


@pytest.mark.parametrize("turn", [1, 2])
def test_the_server_counts_the_requests_of_a_run(asked_by_nobody_else, turn):
    found = ran(asked_by_nobody_else, WORKLOADS[DIGITS])
    assert found.server is not None
    assert (found.server.requests, found.server.failures) == (24, 0)
    assert found.server.compute_s > 0


def test_an_engine_counts_its_tokens(server):
    found = ran(server, WORKLOADS[LANGUAGE_MODEL])
    assert found.server is not None
    assert found.server.other["attendant_generation_tokens_total"] >= 24 * 6


def test_requests_that_are_taken_back_are_seen_by_the_server(server):
    one = Workload(
        name="a",
        model=LANGUAGE_MODEL,
        inputs=WORDS,
        decoding=SamplingParams(max_tokens=LONG, ignore_eos=True),
        cancel=Cancel(share=1.0, after_tokens=1),
    )
    for _ in range(RUNS):  # where the client gets no time, every answer is whole before it cancels
        found = ran(server, one, requests=100)
        assert outcomes(found)[0] <= {RequestOutcome.CANCELLED, RequestOutcome.OK}
        assert found.server is not None
        if found.server.other["attendant_requests_total{cancelled}"] > 0:
            return
    pytest.fail("no request was cancelled")


def test_what_a_server_refuses_is_an_error_with_its_reason(server):
    beyond = SamplingParams(max_tokens=10**6)
    refused = Workload(name="a", model=LANGUAGE_MODEL, inputs=WORDS, decoding=beyond)
    found = ran(server, refused, requests=3)
    assert outcomes(found)[0] == {RequestOutcome.ERROR}
    assert "max_tokens" in found.records[0].error


@pytest.mark.parametrize("name", [DIGITS, DATES, TEXT_ENCODER])
def test_the_same_requests_are_timed_without_a_server(server, repository_of_every_task, name):
    place = InProcess(repository=str(repository_of_every_task), requests=5)
    found = ran(server, WORKLOADS[name], requests=4, in_process=place)
    assert len(found.in_process_s) == 5
    assert min(found.in_process_s) > 0


def test_a_repository_without_the_model_is_refused(server, tmp_path):
    with pytest.raises(InputError, match=r"in_process\.repository"):
        ran(server, WORKLOADS[DIGITS], in_process=InProcess(repository=str(tmp_path)))


def test_a_scenario_is_run_by_a_command(server, tmp_path):
    path = tmp_path / "scenario.toml"
    path.write_text(
        f'requests = 20\ntarget = {{ address = "{server.grpc}" }}\n'
        f'[[workloads]]\nmodel = "{DIGITS}"\nexpect = {{ kind = "example" }}\n'
    )
    command = [sys.executable, "-m", "attendant", "load", "run", str(path)]
    found = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert "unexpected" not in found.stderr
    assert "20" in found.stdout, json.dumps(found.stderr)
