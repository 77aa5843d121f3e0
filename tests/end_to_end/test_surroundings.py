"""`attendant serve` where folders have odd names and vanish, whoever starts it reads nothing, and strangers connect."""

import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from serving.triton.server.ports import free_ports
from tests.conftest import DATES
from tests.end_to_end.asking import PATIENCE_S, python_m
from tests.end_to_end.test_up import READY_S, alive, children_of, command_of

pytestmark = pytest.mark.patient

ODD = 'a folder\'s $HOME; "quoted" & `false`'

FEW = 256
"""Descriptors that a server may open."""


def start(repository, temporary, grpc, *flags, **options):
    """Start it with all signals blocked, no search path, and an output that is full from the start."""
    ports = ["--grpc-port", str(grpc), "--metrics-port", str(*free_ports(1))]
    program = Path(sys.executable).with_name("attendant")
    words = [program, "serve", "--repository", str(repository), *ports, *flags]
    proxies = dict.fromkeys(("http_proxy", "https_proxy", "grpc_proxy"), "http://127.0.0.1:9")
    environment = {**os.environ, **proxies, "TMPDIR": str(temporary), "PATH": ""}  # noqa: TID251
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
    try:
        return subprocess.Popen(words, env=environment, **options)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def wait_for_health(address, models):
    ends_s = time.monotonic() + READY_S
    while True:
        told = python_m("clients", "health", "--server", address, "--timeout-s", "5")
        if told.returncode == 0 and told.stdout.count(": ok") == models:
            return
        assert time.monotonic() < ends_s, told
        time.sleep(0.2)


@pytest.mark.planted
def test_a_server_with_odd_folders_and_an_idle_caller_serves_goes_on_and_ends(repository_of_two, tmp_path):
    repository, temporary = tmp_path / ODD / "models", tmp_path / ODD / "temporary"
    shutil.copytree(repository_of_two, repository)
    (repository / "gone").symlink_to(tmp_path / "nowhere")
    temporary.mkdir()
    (grpc,) = free_ports(1)
    reading, writing = os.pipe2(os.O_NONBLOCK)
    try:
        while True:  # until the pipe is full
            os.write(writing, bytes(1 << 12))
    except BlockingIOError:
        os.set_blocking(writing, True)
    (here := tmp_path / "where it is started").mkdir()
    for module in ("msgspec", "random", "numpy"):
        (here / f"{module}.py").write_text("raise SystemExit('a file of where the server was started was run')\n")
    process = start(repository, temporary, grpc, stdout=writing, stderr=writing, close_fds=True, cwd=here)
    os.close(writing)
    try:
        wait_for_health(f"127.0.0.1:{grpc}", 2)
        family = children_of(process.pid)
        for pid in family:
            if f"/{DATES}/" in command_of(pid):
                os.kill(pid, signal.SIGKILL)
        wait_for_health(f"127.0.0.1:{grpc}", 2)
        family |= children_of(process.pid)
        process.send_signal(signal.SIGTERM)
        assert process.wait(READY_S) == 0
        assert alive(family) == set()
        assert list(temporary.glob("attendant_*")) == []
    finally:
        process.kill()
        process.wait()
        os.close(reading)


@pytest.mark.planted
@pytest.mark.parametrize("removed", ["temporary", "temporary/*/backends"])
def test_a_model_is_loaded_anew_after_the_folder_for_temporary_files_was_removed(repository_of_two, tmp_path, removed):
    (temporary := tmp_path / "temporary").mkdir()
    (grpc,) = free_ports(1)
    process = start(repository_of_two, temporary, grpc, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        assert b"every model answered its example" in process.stdout.readline()
        for folder in tmp_path.glob(removed):
            shutil.rmtree(folder, ignore_errors=True)  # it is laid out anew meanwhile
        family = children_of(process.pid)
        stubs = [pid for pid in family if Path(command_of(pid).split(" ")[0]).name == "triton_python_backend_stub"]
        assert len(stubs) == 2
        for pid in stubs:
            os.kill(pid, signal.SIGKILL)
        while alive(set(stubs)):
            time.sleep(0.1)
        wait_for_health(f"127.0.0.1:{grpc}", 2)
        (server,) = [pid for pid in family if Path(command_of(pid).split(" ")[0]).name == "tritonserver"]
        os.kill(server, signal.SIGKILL)
        while alive({server}):
            time.sleep(0.1)
        wait_for_health(f"127.0.0.1:{grpc}", 2)
        process.send_signal(signal.SIGTERM)
        assert process.wait(READY_S) == 0
        assert not temporary.exists() or list(temporary.glob("attendant_*")) == []
    finally:
        process.kill()
        process.communicate()


@pytest.mark.planted
def test_a_burst_of_silent_connections_to_the_gateway_harms_no_model(repository_of_two, tmp_path):
    (temporary := tmp_path / "temporary").mkdir()
    grpc, page = free_ports(2)
    with (log := tmp_path / "log").open("wb") as output:
        port = ["--gateway-port", str(page)]
        process = start(repository_of_two, temporary, grpc, *port, stdout=output, stderr=output)
    resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (FEW, FEW))
    try:
        wait_for_health(f"127.0.0.1:{grpc}", 2)
        family = children_of(process.pid)
        with ExitStack() as flood:
            for _ in range(2 * FEW):
                connection = flood.enter_context(socket.socket())
                connection.setblocking(False)
                connection.connect_ex(("127.0.0.1", page))
            time.sleep(5)  # in which each model is looked at several times
            assert httpx.get(f"http://127.0.0.1:{page}/livez", timeout=PATIENCE_S).status_code == 200
            wait_for_health(f"127.0.0.1:{grpc}", 2)
        assert process.poll() is None and children_of(process.pid) == family
        assert "anew" not in log.read_text() and "Traceback" not in log.read_text()
        process.send_signal(signal.SIGTERM)
        assert process.wait(READY_S) == 0
        assert alive(family) == set()
    finally:
        process.kill()
        process.wait()
