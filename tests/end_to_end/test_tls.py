"""TLS both ways through the whole chain: client, gateway, Triton; and certificates that are renewed meanwhile."""

import asyncio
import json
import os
import signal
import socket
import ssl
import struct
import subprocess
import sys
import time

import httpx
import pytest

from attendant.errors import UnreachableError
from attendant.sampling_params import SamplingParams
from benchmarks.chaos.processes import family_of
from clients.load.http_session import HttpSession
from clients.load.record import RequestOutcome
from clients.load.run import run_load
from clients.load.scenario import Inputs, Scenario, Target, Workload
from clients.text import TextModel
from clients.tls import Tls
from serving.certificates import ListenTls
from serving.gateway import connections
from serving.gateway.upstream.server import Upstream
from serving.triton.repository.layout import write_repository
from serving.triton.server.ports import free_ports
from tests.authority import Authority
from tests.conftest import DIGITS, LANGUAGE_MODEL
from tests.end_to_end.gateways import started as gateway_started
from tests.end_to_end.servers import started
from tests.run_here import run_here

HERE = "127.0.0.1"
MODEL = LANGUAGE_MODEL
PATIENCE_S = 120
LONG = {"model": MODEL, "prompt": "a", "max_tokens": 4000, "ignore_eos": True, "stream": True}
SHORT = {"model": MODEL, "prompt": "a", "max_tokens": 3, "ignore_eos": True}


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def chain(narrow_repository, authority):
    """A gateway with TLS before a Triton with mutual TLS; the gateway."""
    triton = ListenTls(**authority.issue(HERE, file="triton").listen, listen_ca=authority.ca)
    upstream = Tls(ca=authority.ca, **authority.issue("gateway", file="upstream").client)
    listen = ListenTls(**authority.issue(HERE, file="gateway").listen)
    with (
        started(narrow_repository, listen=triton) as server,
        gateway_started(server.endpoints.grpc, probe_s=60.0, tls=upstream, listen=listen) as gateway,
    ):
        yield gateway


def serial(url, authority):
    host, port = url.removeprefix("https://").split(":")
    context = Tls(ca=authority.ca).create_context()
    with (
        socket.create_connection((host, int(port)), timeout=PATIENCE_S) as plain,
        context.wrap_socket(plain, server_hostname=host) as secured,
    ):
        return secured.getpeercert()["serialNumber"]


def client(authority, **files):
    return httpx.Client(verify=Tls(ca=authority.ca, **files).create_context(), timeout=PATIENCE_S)


def test_a_renewed_certificate_is_shown_to_newcomers_and_no_stream_is_cut(chain, authority):
    old = serial(chain.url, authority)
    with client(authority) as asked, asked.stream("POST", f"{chain.url}/v1/completions", json=LONG) as answer:
        lines = (line for line in answer.iter_lines() if line.startswith("data:"))
        begun = [next(lines) for _ in range(20)]
        authority.issue(HERE, file="gateway")
        assert serial(chain.url, authority) != old
        with client(authority) as newcomer:
            assert newcomer.get(f"{chain.url}/v1/models").json()["data"][0]["id"] == MODEL
        rest = list(lines)
    assert rest[-1] == "data: [DONE]"
    assert not [line for line in begun + rest[:-1] if "error" in json.loads(line[5:])]
    assert json.loads(rest[-2][5:])["choices"][0]["finish_reason"] == "length"


@pytest.mark.planted
def test_a_browser_that_does_not_trust_the_authority_stays_out(chain, tmp_path):
    other = Authority(tmp_path / "theirs")
    with client(other) as asked, pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
        asked.get(f"{chain.url}/livez")


def ran(chain, model=MODEL, **files):
    words = Workload(name="words", model=model, inputs=Inputs(kind="texts", texts=("a",)), parameters={"max_tokens": 3})
    target = Target(transport="openai", address=f"{chain.url}/v1", **{name: str(path) for name, path in files.items()})
    return asyncio.run(run_load(Scenario(workloads=(words,), target=target, requests=4)))


def test_a_load_test_of_the_gateway_goes_over_tls(chain, authority):
    assert {record.outcome for record in ran(chain, ca=authority.ca).records} == {RequestOutcome.OK}


@pytest.mark.planted
def test_a_load_test_says_what_is_wrong_with_a_certificate(chain, tmp_path):
    with pytest.raises(UnreachableError, match="by an authority that we do not trust; name that authority's file"):
        ran(chain, ca=Authority(tmp_path / "theirs").ca)


def test_a_gateway_that_wants_a_certificate_lets_in_who_has_one(chain, authority):
    listen = ListenTls(**authority.issue(HERE, file="strict").listen, listen_ca=authority.ca)
    files = authority.issue("somebody", file="somebody").client
    with gateway_started(*chain.settings.tritons, probe_s=60.0, tls=chain.settings.tls, listen=listen) as strict:
        with client(authority, **files) as asked:
            assert asked.post(f"{strict.url}/v1/completions", json=SHORT).status_code == 200
        with client(authority) as asked, pytest.raises((httpx.ReadError, httpx.RemoteProtocolError, ssl.SSLError)):
            asked.get(f"{strict.url}/livez")
        with pytest.raises(UnreachableError, match=r"closed the connection at once; .*--cert and --key"):
            ran(strict, ca=authority.ca)


def test_so_it_is_told_where_the_server_resets_the_connection(authority):
    files = authority.issue(HERE, file="resetting").listen
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files["listen_cert"], files["listen_key"])

    async def reset(reader, writer):
        await reader.read(1)
        once = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, once)
        writer.transport.abort()

    async def asked():
        async with await asyncio.start_server(reset, HERE, 0, ssl=context) as server:
            port = server.sockets[0].getsockname()[1]
            session = HttpSession(30.0, tls=Tls(ca=authority.ca))
            try:
                await session.get(f"https://{HERE}:{port}/v1/models")
            finally:
                await session.close()

    with pytest.raises(UnreachableError, match=r"closed the connection at once; .*--cert and --key"):
        asyncio.run(asked())


def test_a_handshake_that_does_not_go_on_is_ended(authority, monkeypatch):
    monkeypatch.setattr(connections, "HANDSHAKE_S", 0.5)
    (nobody,), listen = free_ports(1), ListenTls(**authority.issue(HERE, file="bounded").listen)
    with gateway_started(f"{HERE}:{nobody}", probe_s=60.0, listen=listen) as bounded:
        address = HERE, int(bounded.url.rpartition(":")[2])
        with socket.create_connection(address, timeout=30.0) as silent:  # asyncio's own bound is 60
            silent.sendall(b"\x16\x03\x01")
            assert silent.recv(1) == b""


def test_a_gateway_shows_its_renewed_certificate_to_triton_and_cuts_no_stream(chain, authority, tmp_path):
    (address,) = chain.settings.tritons
    mine = authority.issue("gateway", file="renewed").client

    async def scenario():
        upstream = Upstream(address, PATIENCE_S, Tls(ca=authority.ca, **mine))
        try:
            await upstream.probe()
            first, model = upstream.client, upstream.models[MODEL]
            stream = TextModel(first, model).stream("a", SamplingParams(max_tokens=2000, ignore_eos=True))
            await anext(stream)
            unknown = Authority(tmp_path / "theirs").issue("gateway").client
            for name, path in unknown.items():
                mine[name].write_bytes(path.read_bytes())
            await upstream.probe()
            assert upstream.client is first, "Triton does not trust it"
            authority.issue("gateway", file="renewed")
            await upstream.probe()
            assert upstream.client is not first and upstream.verdicts[MODEL].right
            return [delta async for delta in stream][-1].finish_reason
        finally:
            await upstream.close()

    assert asyncio.run(scenario()) == "length"


def test_serve_brings_up_triton_and_gateway_with_tls_and_hands_out_a_key(digits_artefact, authority, tmp_path):
    write_repository([digits_artefact], tmp_path / "repository")
    http, grpc, metrics, gateway = free_ports(4)
    issued = authority.issue("triton.example.org", file="serve")
    key_file = tmp_path / "admin.key"
    words = [
        *("attendant", "serve", "--repository", tmp_path / "repository", "--drain-timeout-s", 2),
        *("--http-port", http, "--grpc-port", grpc, "--metrics-port", metrics, "--gateway-port", gateway),
        *("--listen-cert", issued.cert, "--listen-key", issued.key, "--admin-key-file", key_file),
    ]
    with subprocess.Popen([sys.executable, "-m", *map(str, words)], stdout=subprocess.PIPE, text=True) as process:
        try:
            lines = [line for line in iter(process.stdout.readline, "Ctrl-C stops it\n") if line]
            asked = ("--server", f"{HERE}:{grpc}", "--ca", str(authority.ca), "--tls-name", "triton.example.org")
            label = run_here("attendant", "classify", "docs/examples/three.png", "--model", DIGITS, *asked)
        finally:
            process.send_signal(signal.SIGTERM)
    assert f"page     https://{HERE}:{gateway}\n" in lines
    assert label.returncode == 0 and "3" in label.stdout, label.stderr
    assert key_file.read_text().startswith("admin-key=")
    assert process.returncode == 0


def test_the_gateway_of_serve_knows_a_new_triton_though_the_files_were_renewed_since(narrow_repository, authority):
    grpc, metrics, gateway = free_ports(3)
    issued = authority.issue(HERE, file="renewing")
    words = [
        *("attendant", "serve", "--repository", narrow_repository, "--drain-timeout-s", 2),
        *("--grpc-port", grpc, "--metrics-port", metrics, "--gateway-port", gateway),
        *("--listen-cert", issued.cert, "--listen-key", issued.key),
    ]
    process = subprocess.Popen([sys.executable, "-m", *map(str, words)], stdout=subprocess.PIPE, text=True)
    with process, client(authority) as asked:

        def wait_until_ready():
            assert any(line == "Ctrl-C stops it\n" for line in iter(process.stdout.readline, ""))

        def answer():
            return asked.post(f"https://{HERE}:{gateway}/v1/completions", json=SHORT)

        try:
            wait_until_ready()
            assert answer().status_code == 200
            authority.issue(HERE, file="renewing")
            (server,) = (one.pid for one in family_of(process.pid) if one.role == "server")
            os.kill(server, signal.SIGKILL)
            wait_until_ready()
            authority.issue(HERE, file="renewing")  # what Triton shows is in no file of its owner's now
            ends_s = time.monotonic() + 30
            while (last := answer()).status_code != 200:
                assert time.monotonic() < ends_s, last.text
                time.sleep(0.2)
        finally:
            process.send_signal(signal.SIGTERM)
