"""TLS and mutual TLS at the real tritonserver: who is let in, and what everybody else is told."""

from __future__ import annotations

import asyncio
import re
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from attendant.errors import ConfigError, UnreachableError
from clients.load.record import RequestOutcome
from clients.load.run import run_load
from clients.load.scenario import Inputs, Scenario, Target, Workload
from clients.tls import Tls
from clients.triton_client import TritonClient
from serving.certificates import ListenTls
from serving.triton.server.ports import free_ports
from serving.triton.server.process import TritonServer
from serving.triton.server.settings import ServerSettings
from tests.authority import Authority, Issued
from tests.run_here import run_here
from tests.serving.triton.server import sample_models

READY_S = 240.0
HERE = "127.0.0.1"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("tls")
    sample_models.write(root / "models", "double", sample_models.DOUBLE_CONFIG, sample_models.DOUBLE)
    return root


@pytest.fixture(scope="module")
def authority(folder: Path) -> Authority:
    return Authority(folder / "ours")


@pytest.fixture(scope="module")
def stranger(folder: Path) -> Authority:
    return Authority(folder / "theirs")


@contextmanager
def _running(folder: Path, listen: ListenTls) -> Iterator[str]:
    http, grpc, metrics = free_ports(3)
    settings = ServerSettings(
        repository=folder / "models",
        http_port=http,
        grpc_port=grpc,
        metrics_port=metrics,
        drain_timeout_s=2,
        listen=listen,
    )
    with TritonServer(settings) as server:
        ends_s = time.monotonic() + READY_S
        while not _listens(grpc):
            assert server.poll() is None and time.monotonic() < ends_s
            time.sleep(0.1)
        yield server.endpoints.grpc


def _listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(scope="module")
def secured(folder: Path, authority: Authority) -> Iterator[str]:
    with _running(folder, ListenTls(**authority.issue(HERE, "localhost").listen)) as address:
        yield address


@pytest.fixture(scope="module")
def mutual(folder: Path, authority: Authority) -> Iterator[str]:
    listen = ListenTls(**authority.issue(HERE, file="mutual").listen, listen_ca=authority.ca)
    with _running(folder, listen) as address:
        yield address


async def _double(address: str, tls: Tls) -> list[float]:
    async with TritonClient(address, 60.0, tls=tls) as client:
        assert await client.models() == ["double"]
        answer = await client.infer("double", {"x": np.array([1, 2], np.float32)})
        return [float(one) for one in answer["y"]]


def _refusal(address: str, tls: Tls) -> str:
    with pytest.raises(UnreachableError) as refused:
        asyncio.run(_double(address, tls))
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_the_right_authority_is_enough(secured: str, authority: Authority):
    assert asyncio.run(_double(secured, Tls(ca=authority.ca))) == [2, 4]


def test_a_name_that_the_certificate_holds_may_stand_for_the_address(secured: str, authority: Authority):
    assert asyncio.run(_double(secured, Tls(ca=authority.ca, tls_name="localhost"))) == [2, 4]


@pytest.mark.planted
@pytest.mark.parametrize("public", [True, False])
def test_another_authority_is_not_trusted(secured: str, stranger: Authority, public: bool):
    told = _refusal(secured, Tls(tls=True) if public else Tls(ca=stranger.ca))
    assert told == (
        f"the certificate of {secured} is by an authority that we do not trust; name that authority's file with --ca"
    )


@pytest.mark.planted
def test_a_name_that_the_certificate_lacks_is_refused(secured: str, authority: Authority):
    told = _refusal(secured, Tls(ca=authority.ca, tls_name="triton.example.org"))
    assert told.startswith(f"the certificate of {secured} does not name it; ") and "--tls-name" in told


@pytest.mark.planted
def test_a_certificate_that_has_expired_is_refused(folder: Path, authority: Authority):
    ends = datetime.now(UTC) + timedelta(seconds=10)  # none is started with one that has expired
    with _running(folder, ListenTls(**authority.issue(HERE, file="old", ends=ends).listen)) as address:
        time.sleep(max(0.0, (ends - datetime.now(UTC)).total_seconds()) + 1.0)
        told = _refusal(address, Tls(ca=authority.ca))
    assert told == f"the certificate of {address} has expired; let its owner renew it"


def test_who_speaks_no_tls_is_told_to(secured: str):
    told = _refusal(secured, Tls())
    assert told.startswith(f"{secured} closed the connection at once; it may want TLS (--tls)")


def test_who_speaks_tls_to_a_server_without_is_told_so(folder: Path, authority: Authority):
    with _running(folder, ListenTls()) as address:
        told = _refusal(address, Tls(ca=authority.ca))
    assert told == f"{address} does not speak TLS; leave --tls and the certificates out"


def test_mutual_tls_lets_a_client_in_by_its_certificate(mutual: str, authority: Authority):
    client = authority.issue("client.example.org", file="client").client
    assert asyncio.run(_double(mutual, Tls(ca=authority.ca, **client))) == [2, 4]


@pytest.mark.planted
@pytest.mark.parametrize("shown", ["none", "a stranger's"])
def test_mutual_tls_lets_nobody_in_without_one(mutual: str, authority: Authority, stranger: Authority, shown: str):
    client = {} if shown == "none" else stranger.issue("client.example.org", file="client").client
    told = _refusal(mutual, Tls(ca=authority.ca, **client))
    assert told.startswith(f"{mutual} closed the connection at once; ") and "--cert and --key" in told


@pytest.mark.parametrize(
    ("server", "names_client"), [("secured", False), ("mutual", True)], ids=["one way", "both ways"]
)
def test_our_own_checks_reach_what_they_start(
    server: str, names_client: bool, authority: Authority, request: pytest.FixtureRequest
):
    issued = authority.issue(HERE, "localhost", file="mutual" if names_client else "server")
    listen = ListenTls(**issued.listen, listen_ca=authority.ca if names_client else None)
    with _running(request.getfixturevalue("folder"), listen) as address:
        assert asyncio.run(_double(address, listen.own_client())) == [2, 4]


def test_a_load_test_goes_over_tls(mutual: str, authority: Authority):
    issued = authority.issue("load.example.org", file="load")
    target = Target(address=mutual, ca=str(authority.ca), cert=str(issued.cert), key=str(issued.key))
    numbers = Workload(name="numbers", model="double", inputs=Inputs(kind="random", number=3, size=3))
    found = asyncio.run(run_load(Scenario(workloads=(numbers,), target=target, requests=12)))
    assert {record.outcome for record in found.records} == {RequestOutcome.OK} and len(found.records) == 12


def test_a_verb_takes_the_files_and_says_what_is_wrong_in_one_line(
    secured: str, authority: Authority, stranger: Authority
):
    asked = ("attendant", "predict", "absent.json", "--model", "double", "--server", secured)
    refused = run_here("attendant", "health", "--server", secured, "--ca", str(stranger.ca))
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.count("\n") == 1 and "authority that we do not trust" in refused.stderr
    reached = run_here(*asked, "--ca", str(authority.ca))
    assert "absent.json" in reached.stderr, "the server was reached, and the file was not"


@pytest.fixture
def starting(tmp_path: Path) -> tuple[TritonServer, Authority, Issued]:
    """A server with mutual TLS that takes three seconds to load its model; who issues its certificate; its files."""
    slowly = sample_models.DOUBLE.replace(
        "    def execute", "    def initialize(self, args):\n        __import__('time').sleep(3)\n\n    def execute", 1
    )
    sample_models.write(tmp_path / "models", "double", sample_models.DOUBLE_CONFIG, slowly)
    authority = Authority(tmp_path / "certificates")
    issued = authority.issue(HERE)
    http, grpc, metrics = free_ports(3)
    listen = ListenTls(**issued.listen, listen_ca=authority.ca)
    ports = {"http_port": http, "grpc_port": grpc, "metrics_port": metrics}
    server = TritonServer(ServerSettings(repository=tmp_path / "models", drain_timeout_s=2, listen=listen, **ports))
    return server, authority, issued


@pytest.mark.parametrize("moment", ["loads its models", "has read the files"])
def test_a_server_is_asked_by_what_it_shows_though_the_files_are_renewed_while_it(
    starting: tuple[TritonServer, Authority, Issued], moment: str
):
    server, authority, issued = starting

    async def renew() -> None:
        port = int(server.endpoints.grpc.rpartition(":")[2])
        if moment == "loads its models":
            waiting = asyncio.ensure_future(server.wait_until_live(READY_S))
            await asyncio.sleep(1.0)
            assert not _listens(port)
        else:
            while not _listens(port):
                await asyncio.sleep(0.01)
            waiting = None
        key = issued.key.read_bytes()
        authority.issue(HERE, "renewed")
        renewed = issued.key.read_bytes()
        issued.key.write_bytes(key)  # half of it
        await asyncio.sleep(0.5)
        issued.key.write_bytes(renewed)
        await (waiting or server.wait_until_live(30.0))
        assert await _double(server.endpoints.grpc, server.own_client) == [2, 4]

    with server:
        asyncio.run(renew())


def test_copies_of_certificates_are_for_their_user_and_go_with_the_server_though_its_log_stays(
    starting: tuple[TritonServer, Authority, Issued],
):
    server, authority, issued = starting
    with server:
        assert server.log is not None
        folder, given = server.log.parent, {path.read_bytes() for path in (issued.cert, issued.key, authority.ca)}

        def copies() -> list[Path]:
            return [path for path in folder.iterdir() if path.is_file() and path.read_bytes() in given]

        assert [oct(path.stat().st_mode & 0o777) for path in (folder, *copies())] == ["0o700", *["0o600"] * 3]
        server.kill()
        assert server.log.exists() and not copies() and issued.key.exists()
    assert server.remove_log()


@pytest.mark.planted
def test_none_is_started_with_half_a_renewal_and_nothing_is_left(
    starting: tuple[TritonServer, Authority, Issued], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    server, authority, issued = starting
    issued.key.write_bytes(authority.issue(HERE, file="other").key.read_bytes())
    with pytest.raises(ConfigError, match=re.escape(str(issued.key))):
        server.start()
    assert server.group is None and not list((tmp_path / "temporary").iterdir())
