from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from serving.triton.server.environment import server_environment
from serving.triton.server.group import living_members
from serving.triton.server.guard import returncode_from_status
from serving.triton.server.settings import ServerSettings
from serving.triton.server.shared_memory import DIRECTORY

STARTER = """
import sys, time
from pathlib import Path
from serving.triton.server.process import TritonServer
from serving.triton.server.settings import ServerSettings

http, grpc, metrics = map(int, sys.argv[2:])
server = TritonServer(
    ServerSettings(repository=Path(sys.argv[1]), http_port=http, grpc_port=grpc, metrics_port=metrics)
)
server.start()
server.wait_until_ready(lambda endpoints: None, 240)
print(server.group, server.regions, server.log, flush=True)
time.sleep(600)
"""


def _start(settings: ServerSettings) -> subprocess.Popen[str]:
    words = [str(settings.repository), *map(str, settings.ports.values())]
    environment = {**server_environment(()), "TMPDIR": str(settings.repository.parent)}
    return subprocess.Popen([sys.executable, "-c", STARTER, *words], stdout=subprocess.PIPE, text=True, env=environment)


@pytest.mark.parametrize("guard_too", [False, True])
def test_a_starter_that_is_killed_takes_server_stubs_regions_and_folder_with_it(
    settings: ServerSettings, guard_too: bool
):
    with _start(settings) as starter:
        assert starter.stdout is not None
        group, regions, log = starter.stdout.readline().split()
        assert len(living_members(int(group))) == 4  # the guard, the server and two stubs
        assert len(list(DIRECTORY.glob(f"{regions}*"))) == 2
        if guard_too:
            os.kill(int(group), signal.SIGKILL)
        starter.kill()
    deadline = time.monotonic() + 60
    while (left := _left(int(group), regions, Path(log).parent)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert left == []


def _left(group: int, regions: str, folder: Path) -> list[object]:
    return [*living_members(group), *DIRECTORY.glob(f"{regions}*"), *folder.parent.glob(folder.name)]


def test_a_status_is_read_as_subprocess_would_give_it():
    assert [returncode_from_status(status) for status in (0, 1, 139, -9)] == [0, 1, -signal.SIGSEGV, -9]
