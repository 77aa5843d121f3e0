import asyncio
import contextlib
import hashlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import httpx
import pytest

from attendant.errors import LostError, ServerError, UnfinishedError, UnknownNameError
from attendant.sampling_params import SamplingParams
from clients.generate import Generator
from clients.translate import Translator
from clients.triton_client import TritonClient
from serving.gateway.middleware.keys import new_key
from serving.triton.server.ports import free_ports
from serving.triton.server.workers import STUB
from tests.conftest import DATES, DIGITS, LANGUAGE_MODEL, NARROW_LENGTH
from tests.end_to_end.asking import PATIENCE_S, python_m
from tests.text_checkpoints import OTHER_PROMPT

READY_S = 240  # of patience


def regions(pid):
    """Those of the server that a process started: others run at the same time."""
    return {path.name for path in Path("/dev/shm").glob(f"attendant_*_{pid}_*")}  # noqa: S108


def children_of(pid):
    listed = subprocess.run(["ps", "-e", "-o", "pid=,ppid="], capture_output=True, text=True, check=True)
    parents = {int(child): int(parent) for child, parent in (line.split() for line in listed.stdout.splitlines())}
    found = {pid}
    while grown := {child for child, parent in parents.items() if parent in found} - found:
        found |= grown
    return found - {pid}


def alive(pids):
    """Those that still run; a dead one that its new parent has not reaped yet has the state Z."""
    return {pid for pid in pids if state_of(pid) not in ("", "Z")}


def command_of(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode().replace("\0", " ")
    except OSError:
        return ""


def state_of(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return ""


@contextlib.contextmanager
def up(*words, repository):
    http, grpc, metrics = map(str, free_ports(3))
    ports = ["--http-port", http, "--grpc-port", grpc, "--metrics-port", metrics]
    command = [sys.executable, "-m", "attendant", "serve", "--repository", str(repository), *ports, *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process, grpc
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=READY_S)


@pytest.mark.parametrize("ending", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_the_server_says_where_it_answers_and_leaves_nothing_behind(repository_of_two, ending):
    with up(repository=repository_of_two) as (process, grpc):
        first = process.stdout.readline()
        assert f"every model answered its example: {DATES}, {DIGITS}" in first
        assert grpc in process.stdout.readline()
        assert python_m("clients", "health", "--server", f"127.0.0.1:{grpc}").returncode == 0
        family = children_of(process.pid)
        assert len(family) >= 3, "the server and a stub for each model"
        assert regions(process.pid)
        process.send_signal(ending)
        while not (line := process.stderr.readline()).startswith("stopping"):
            assert line, "it ended without a word"
        process.send_signal(signal.SIGTERM)  # as Python ends, which takes a second
        _, errors = process.communicate(timeout=READY_S)
    assert process.returncode == 0, errors
    assert alive(family) == set()
    assert regions(process.pid) == set()


def test_a_gateway_beside_it_serves_its_page_and_stops_with_it(repository_of_two):
    (port,) = free_ports(1)
    with up("--gateway-port", str(port), repository=repository_of_two) as (process, _):
        told = [process.stdout.readline() for _ in range(7)]
        assert f"page     http://127.0.0.1:{port}\n" in told
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=PATIENCE_S) as page:
            assert "Ask a model" in page.read().decode()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/models", timeout=PATIENCE_S) as answer:
            assert {card["id"] for card in json.load(answer)["data"]} == {DATES, DIGITS}
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=READY_S)
    assert process.returncode == 0, errors


def test_a_gateway_beside_it_asks_for_keys_and_knows_names_and_origins(repository_of_two, tmp_path):
    (port,), secret = free_ports(1), new_key(tmp_path / "keys.json", "ann")
    access = ["--keys", str(tmp_path / "keys.json"), "--cors", "https://a.example", "--allowed-hosts", "models.example"]
    with up("--gateway-port", str(port), *access, repository=repository_of_two) as (process, _):
        while process.stdout.readline() != "Ctrl-C stops it\n":
            assert process.poll() is None

        def status(**headers):
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            return httpx.get(f"http://127.0.0.1:{port}/v1/models", headers=named, timeout=PATIENCE_S)

        key = f"Bearer {secret}"
        assert status().status_code == 401
        assert status(authorization=key, host="models.example").status_code == 200
        assert status(authorization=key, host="other.example").status_code == 421
        page = status(authorization=key, origin="https://a.example")
        assert page.headers["access-control-allow-origin"] == "https://a.example"


def test_options_of_a_gateway_that_is_not_there_are_refused(repository_of_two):
    refused = python_m("attendant", "serve", "--repository", repository_of_two, "--keys", "keys.json")
    assert refused.returncode == 2
    assert "expected --gateway-port; found --keys alone" in refused.stderr


def test_a_gateways_taken_port_is_one_line_before_anything_is_started(repository_of_two):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        refused = python_m("serving", "up", "--repository", repository_of_two, "--gateway-port", port)
    assert refused.returncode == 2
    assert refused.stderr.count("\n") == 1 and "--gateway-port" in refused.stderr


def test_a_taken_port_is_one_line_and_status_2(repository_of_two):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        refused = python_m("serving", "up", "--repository", repository_of_two, "--grpc-port", port)
    assert refused.returncode == 2
    assert refused.stderr.count("\n") == 1
    assert port in refused.stderr and "--grpc-port" in refused.stderr


def test_a_repository_that_is_not_there_is_status_2(tmp_path):
    refused = python_m("serving", "up", "--repository", tmp_path / "nothing")
    assert refused.returncode == 2
    assert refused.stderr.count("\n") == 1


@pytest.mark.planted
def test_a_model_that_cannot_be_loaded_or_answers_wrongly_is_not_served_and_the_other_is(repository_of_two, tmp_path):
    changed, wrong, crowded = tmp_path / "changed", tmp_path / "wrong", tmp_path / "crowded"
    for copy in (changed, wrong, crowded):
        subprocess.run(["cp", "-r", str(repository_of_two), str(copy)], check=True)
    os.truncate(changed / "digits-vit/1/model.onnx", 1000)
    with up(repository=changed) as (process, _):
        assert process.stdout.readline() == f"every model answered its example: {DATES}\n"
        told = process.stdout.readline()
        assert told.startswith(f"not served, and tried again: {DIGITS}: ")
        assert "model.onnx with SHA-256" in told and "as its manifest says" in told
    config = wrong / "dates-transformer/config.pbtxt"
    config.write_text(config.read_text().replace("1997-03-03", "2001-01-01"))
    with up(repository=wrong) as (process, _):
        assert process.stdout.readline() == f"every model answered its example: {DIGITS}\n"
        told = process.stdout.readline()
        assert (
            told.startswith(f"not served, and tried again: {DATES}: expected the right answer") and "1997-03-03" in told
        )
    config = crowded / "digits-vit/config.pbtxt"
    config.write_text(re.sub(r'(key: "threads"\s+value \{\s+string_value: )"1"', r'\1"100000"', config.read_text()))
    with up(repository=crowded) as (process, _):
        assert process.stdout.readline() == f"every model answered its example: {DATES}\n"
        assert "from 1 to 1024 threads; found '100000'" in process.stdout.readline()


@pytest.mark.planted
def test_a_model_that_answers_wrongly_is_asked_by_nobody_until_its_files_change(repository_of_two, tmp_path):
    copy = tmp_path / "model_repository"
    subprocess.run(["cp", "-r", str(repository_of_two), str(copy)], check=True)
    config = copy / "dates-transformer/config.pbtxt"
    right = config.read_text()
    config.write_text(right.replace("1997-03-03", "2001-01-01"))

    async def answered(address, within_s):
        """Whether the wrong model ever answers, asked without a pause."""
        until = time.monotonic() + within_s
        async with TritonClient(address, timeout_s=PATIENCE_S) as client:
            while time.monotonic() < until:
                with contextlib.suppress(ServerError, UnknownNameError):
                    translator = await Translator.find(client, DATES)
                    return await translator.translate("3 March 1997")
                await asyncio.sleep(0.005)
        return None

    with up(repository=copy) as (process, grpc):
        assert DIGITS in process.stdout.readline() and DATES in process.stdout.readline()
        address = f"127.0.0.1:{grpc}"
        assert asyncio.run(answered(address, 5.0)) is None
        config.write_text(right)
        assert asyncio.run(answered(address, PATIENCE_S)) == "1997-03-03"


def test_a_server_none_of_whose_models_can_be_served_ends_with_what_is_wrong(repository_of_two, tmp_path):
    copy = tmp_path / "model_repository"
    subprocess.run(["cp", "-r", str(repository_of_two), str(copy)], check=True)
    os.truncate(copy / "digits-vit/1/model.onnx", 1000)
    with up("--models", DIGITS, repository=copy) as (process, _):
        _, errors = process.communicate(timeout=READY_S)
    assert process.returncode == 1
    assert "model.onnx with SHA-256" in errors and errors.count("\n") == 1


@pytest.mark.parametrize("number", [signal.SIGHUP, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_what_was_begun_is_answered_while_the_server_stops(narrow_repository, number):
    async def scenario(address, process):
        async with TritonClient(address, timeout_s=PATIENCE_S) as client:
            model = await Generator.find(client, LANGUAGE_MODEL)
            begun = model.stream(OTHER_PROMPT, SamplingParams(max_tokens=100, ignore_eos=True))
            tokens = len((await anext(begun)).token_ids)
            process.send_signal(number)
            return tokens + sum([len(delta.token_ids) async for delta in begun])

    with up(repository=narrow_repository) as (process, grpc):
        process.stdout.readline()
        assert asyncio.run(scenario(f"127.0.0.1:{grpc}", process)) == 100
        process.communicate(timeout=READY_S)
    assert process.returncode == 0


def engine_of(process):
    """The number of the process that decodes."""
    commands = {pid: command_of(pid) for pid in children_of(process.pid)}
    (pid,) = [pid for pid, command in commands.items() if f"/{LANGUAGE_MODEL}/" in command and STUB not in command]
    return pid


async def answered_again(model):
    """The first answer of a model that was away."""
    ends_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            return await model.answer(OTHER_PROMPT, SamplingParams(max_tokens=3))
        except (UnfinishedError, ServerError, UnknownNameError):
            assert time.monotonic() < ends_s
            await asyncio.sleep(0.1)


def test_a_stream_whose_worker_dies_ends_with_an_error_and_the_model_is_back(narrow_repository):
    async def scenario(address, pid):
        async with TritonClient(address, timeout_s=PATIENCE_S) as client:
            model = await Generator.find(client, LANGUAGE_MODEL)
            begun = model.stream(OTHER_PROMPT, SamplingParams(max_tokens=NARROW_LENGTH - 100, ignore_eos=True))
            await anext(begun)
            os.kill(pid, signal.SIGKILL)
            with pytest.raises(LostError, match="found an engine that ended with -9"):
                async for _ in begun:
                    pass
            return await answered_again(model)

    with up(repository=narrow_repository) as (process, grpc):
        process.stdout.readline()
        assert asyncio.run(scenario(f"127.0.0.1:{grpc}", engine_of(process)))


@pytest.mark.patient
def test_an_artefact_that_was_exchanged_meanwhile_is_served_once_its_worker_has_died(narrow_repository, tmp_path):
    repository = tmp_path / "repository"
    shutil.copytree(narrow_repository, repository)
    (tokenizer,) = repository.glob("*/1/tokenizer.json")

    async def scenario(address, pid):
        async with TritonClient(address, timeout_s=PATIENCE_S) as client:
            model = await Generator.find(client, LANGUAGE_MODEL)
            os.kill(pid, signal.SIGKILL)
            return await answered_again(model)

    with up(repository=repository) as (process, grpc):
        process.stdout.readline()
        tokenizer.write_text(tokenizer.read_text() + " ")
        manifest = tokenizer.with_name("manifest.json")
        fields = json.loads(manifest.read_text())
        fields["files"]["tokenizer.json"] = hashlib.sha256(tokenizer.read_bytes()).hexdigest()
        manifest.write_text(json.dumps(fields))
        assert asyncio.run(scenario(f"127.0.0.1:{grpc}", engine_of(process)))


def test_a_supervisor_and_a_guard_that_are_killed_together_leave_no_process(repository_of_two):
    with up(repository=repository_of_two) as (process, _):
        process.stdout.readline()
        family = children_of(process.pid)
        guards = [pid for pid in family if "serving.triton.server.guard" in command_of(pid)]
        for pid in (*guards, process.pid):
            os.kill(pid, signal.SIGKILL)
        process.communicate(timeout=READY_S)
        ends_s = time.monotonic() + PATIENCE_S
        while alive(family) and time.monotonic() < ends_s:
            time.sleep(0.1)
        assert alive(family) == set()


def test_rest_is_off_unless_it_is_given_a_port(repository_of_two):
    grpc, metrics = map(str, free_ports(2))
    words = ["--repository", str(repository_of_two), "--grpc-port", grpc, "--metrics-port", metrics]
    command = [sys.executable, "-m", "attendant", "serve", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        told = [process.stdout.readline() for _ in range(5)]
        process.send_signal(signal.SIGTERM)
    assert not any("REST" in line for line in told) and any(grpc in line for line in told)
    assert process.returncode == 0


def test_numpy_2_in_the_stubs_environment_is_refused_at_start_up(repository_of_two, tmp_path):
    # A distribution named numpy that comes first on the path, as a second installation would.
    info = tmp_path / "numpy-2.9.9.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: numpy\nVersion: 2.9.9\n")
    command = [sys.executable, "-m", "attendant", "serve", "--repository", str(repository_of_two)]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}  # noqa: TID251
    refused = subprocess.run(command, capture_output=True, text=True, timeout=READY_S, env=environment)
    assert refused.returncode == 1
    assert "2.9.9" in refused.stderr and 'pip install "numpy<2"' in refused.stderr


def test_a_dead_worker_is_seen_by_health_although_the_server_says_ready(repository_of_two):
    with up("--watch-s", "0", repository=repository_of_two) as (process, grpc):
        process.stdout.readline()
        for pid in children_of(process.pid):
            arguments = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
            if "stub" in arguments[0] and any("digits-vit" in word for word in arguments):
                os.kill(pid, signal.SIGKILL)
        told = python_m("clients", "health", "--server", f"127.0.0.1:{grpc}", "--timeout-s", "5")
        assert told.returncode == 1
        assert "digits-vit (classify): FAILED" in told.stdout
        assert "dates-transformer (translate): ok" in told.stdout
