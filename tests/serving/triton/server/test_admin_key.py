"""What a client without the admin key cannot do to a real tritonserver."""

from __future__ import annotations

import asyncio
import json
import stat
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

from attendant.errors import InputError, OutputError
from clients.admin_key import AdminKey, read_admin_key
from clients.triton_client import TritonClient
from serving.triton.server.admin_key import load_admin_key
from serving.triton.server.group import living_members
from serving.triton.server.ports import free_ports
from serving.triton.server.process import TritonServer
from serving.triton.server.settings import ServerSettings
from serving.triton.server.shared_memory import DIRECTORY
from tests.serving.triton.server import sample_models

READY_S = 240.0
CHANGES = {  # restricted call: over gRPC, and over HTTP
    "shared memory": (
        lambda client, **key: client.register_system_shared_memory("mine", "/nothing", 8, **key),
        ("v2/systemsharedmemory/region/mine/register", {"key": "/nothing", "offset": 0, "byte_size": 8}),
    ),
    "shared memory, listed": (
        lambda client, **key: client.get_system_shared_memory_status(**key),
        ("v2/systemsharedmemory/status", None),
    ),
    "device memory": (
        lambda client, **key: client.get_cuda_shared_memory_status(**key),
        ("v2/cudasharedmemory/status", None),
    ),
    "models": (
        lambda client, **key: client.get_model_repository_index(**key),
        ("v2/repository/index", {}),
    ),
    "trace": (
        lambda client, **key: client.get_trace_settings(**key),
        ("v2/trace/setting", None),
    ),
    "logging": (
        lambda client, **key: client.update_log_settings({"log_verbose_level": 1}, **key),
        ("v2/logging", {"log_verbose_level": 1}),
    ),
}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TritonServer]:
    root = tmp_path_factory.mktemp("models")
    sample_models.write(root, "double", sample_models.DOUBLE_CONFIG, sample_models.DOUBLE)
    sample_models.write(root, "tokens", sample_models.TOKENS_CONFIG, sample_models.TOKENS)
    http, grpc, metrics = free_ports(3)
    settings = ServerSettings(repository=root, http_port=http, grpc_port=grpc, metrics_port=metrics, drain_timeout_s=2)
    with TritonServer(settings) as server:
        server.wait_until_ready(lambda endpoints: None, READY_S)
        yield server


def _send(server: TritonServer, path: str, body: object, headers: dict[str, str]) -> int:
    content = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"http://{server.endpoints.http}/{path}", content, headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310  http, of this file
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


@pytest.mark.planted
@pytest.mark.parametrize("call", CHANGES)
def test_a_change_over_grpc_needs_the_key(running: TritonServer, call: str):
    change, _ = CHANGES[call]
    wrong = AdminKey(running.admin_key.name, running.admin_key.secret[:-1])
    with triton.InferenceServerClient(running.endpoints.grpc) as client:
        for headers in ({}, dict(wrong.grpc_metadata)):
            with pytest.raises(InferenceServerException, match="restricted"):
                change(client, headers=headers)
        if call != "shared memory":  # no such region is there, which the server finds out only with the key
            change(client, headers=dict(running.admin_key.grpc_metadata))
        else:
            with pytest.raises(InferenceServerException, match="shared memory"):
                change(client, headers=dict(running.admin_key.grpc_metadata))


@pytest.mark.parametrize("call", CHANGES)
def test_a_change_over_http_needs_the_key(running: TritonServer, call: str):
    _, (path, body) = CHANGES[call]
    assert _send(running, path, body, {}) == 403
    assert _send(running, path, body, {running.admin_key.name: running.admin_key.secret[:-1]}) == 403
    assert _send(running, path, body, running.admin_key.http_headers) == (500 if call == "shared memory" else 200)


def test_a_model_is_loaded_for_whoever_has_the_key_which_no_command_line_shows(running: TritonServer):
    with triton.InferenceServerClient(running.endpoints.grpc) as client:
        with pytest.raises(InferenceServerException, match="restricted"):
            client.load_model("double")
        client.load_model("double", headers=dict(running.admin_key.grpc_metadata))
    shown = [Path(f"/proc/{pid}/cmdline").read_bytes().decode() for pid in living_members(running.group)]
    assert any("--grpc-restricted-protocol" in words for words in shown)
    assert not any(running.admin_key.secret in words for words in shown)


def test_what_a_client_reads_needs_none(running: TritonServer):
    async def read() -> tuple[list[str], str]:
        async with TritonClient(running.endpoints.grpc, 60.0) as client:
            return await client.models(), (await client.model("double")).name

    assert asyncio.run(read()) == (["double", "tokens"], "double")


def test_the_name_that_a_server_tells_says_nothing_of_its_memory(running: TritonServer):
    with triton.InferenceServerClient(running.endpoints.grpc) as client:
        told = client.get_server_metadata().name
    assert told == running.name and running.regions != running.name
    regions = [path.name for path in DIRECTORY.glob(f"{running.regions}*")]
    assert len(regions) >= 2, "one a model"
    assert not [region for region in regions if told in region]


def test_the_log_does_not_hold_the_key(running: TritonServer):
    assert running.log is not None and running.admin_key.secret not in running.log.read_text(errors="replace")


def test_a_key_file_is_written_once_for_this_user_alone_and_read_from_then_on(tmp_path: Path):
    file = tmp_path / "admin.key"
    key = load_admin_key(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert load_admin_key(file) == read_admin_key(file) == key
    assert key.secret not in repr(key)


def test_a_disk_that_is_full_leaves_no_file_that_keeps_the_next_start_away(tmp_path: Path):
    file = tmp_path / "admin.key"
    code = (
        "import resource, signal; from pathlib import Path\n"
        "from serving.triton.server.admin_key import load_admin_key\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n"
        f"load_admin_key(Path({str(file)!r}))"
    )
    failed = subprocess.run([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True, check=False)
    assert "OutputError: expected a place to write the admin key" in failed.stderr
    assert list(tmp_path.iterdir()) == []
    assert load_admin_key(file) == read_admin_key(file)
    assert list(tmp_path.iterdir()) == [file]


def test_servers_that_start_at_once_with_one_key_file_get_one_key(tmp_path: Path):
    with ThreadPoolExecutor(8) as pool:
        keys = list(pool.map(load_admin_key, [tmp_path / "admin.key"] * 32))
    assert set(keys) == {read_admin_key(tmp_path / "admin.key")}


def test_a_key_is_not_written_through_a_link(tmp_path: Path):
    (tmp_path / "admin.key").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OutputError, match="admin key"):
        load_admin_key(tmp_path / "admin.key")
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("text", ["", "secret", "=secret", "name=", "a b=c", "name=a\nb"])
def test_a_file_that_holds_no_key_is_refused(tmp_path: Path, text: str):
    (tmp_path / "admin.key").write_text(text)
    with pytest.raises(InputError, match="NAME=SECRET"):
        read_admin_key(tmp_path / "admin.key")
