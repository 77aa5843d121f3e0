"""Every command of docs/guides/gateway.md, before a Triton with the shipped models."""

import asyncio
import json
import re
import shlex
import signal
import subprocess
from contextlib import contextmanager

import httpx
import pytest

from serving.triton.server.ports import free_ports
from tests.end_to_end.asking import until
from tests.end_to_end.documents import ROOT, blocks, commands, environment, run_python, succeeded

GUIDE = (ROOT / "docs/guides/gateway.md").read_text()
STARTS = [command for command in commands(GUIDE) if "attendant gateway" in command]
CURLS = [command for command in commands(GUIDE) if command.startswith("curl")]


@pytest.fixture(scope="module")
def triton(shipped_server):
    return shipped_server.grpc


@pytest.fixture(scope="module")
def address(triton):
    """Of the gateway that the first command starts."""
    with gateway_of(STARTS[0], triton) as port:
        yield f"127.0.0.1:{port}"


def lists_models(port):
    try:
        return bool(httpx.get(f"http://127.0.0.1:{port}/v1/models").json()["data"])
    except (httpx.TransportError, KeyError):
        return False


@contextmanager
def gateway_of(command, triton):
    port, nobody = free_ports(2)
    command = command.replace("127.0.0.1:8001", triton).replace("9001", str(nobody))
    process = subprocess.Popen(
        shlex.split(re.sub(r"--port \d+", f"--port {port}", command)),
        cwd=ROOT,
        env=environment(),
        stderr=subprocess.PIPE,
    )
    try:
        assert asyncio.run(until(lambda: lists_models(port)))
        yield port
    finally:
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=240)
    lines = [json.loads(line) for line in log.decode().splitlines()]
    assert process.returncode == 0 and any(line.get("path") == "/v1/models" for line in lines)


@pytest.mark.parametrize("command", CURLS)
def test_what_the_guide_asks_is_answered(address, command):
    said = succeeded(command.replace("127.0.0.1:8080", address))
    assert '"error":' not in said and said  # a sampled token may say "error"
    assert ("data: [DONE]" in said) == ("stream" in command)
    if "/v1/caption" in command:
        assert "a three left of an eight" in said


def test_the_program_of_the_guide_works(address):
    (program,) = blocks(GUIDE, "python")
    said = run_python(program.replace("127.0.0.1:8080", address))
    assert "stdlib-lm generate\n" in said


def test_a_key_of_the_guide_is_made_and_revoked():
    new, revoke = [command for command in commands(GUIDE) if "attendant keys" in command]
    file = ROOT / "build/keys.json"
    file.parent.mkdir(exist_ok=True)
    file.unlink(missing_ok=True)
    assert succeeded(new).startswith("att-")
    assert not succeeded(revoke) and json.loads(file.read_text()) == {"keys": []}
    file.unlink()


def test_several_servers_are_asked_as_the_guide_starts_them_though_one_is_away(triton):
    with gateway_of(STARTS[1], triton) as port:
        asked = {"model": "dates-transformer", "input": "3rd of march 1997"}
        assert httpx.post(f"http://127.0.0.1:{port}/v1/translate", json=asked).status_code == 200


def test_every_route_of_the_guide_is_one(address):
    paths = httpx.get(f"http://{address}/openapi.json").json()["paths"].keys()
    told = set(re.findall(r"`(?:GET |POST )?(/[a-z0-9/{}]+)`", GUIDE.split("| route |")[1].split("**Options")[0]))
    assert told <= paths and len(told) >= 9
