from __future__ import annotations

import subprocess
import sys
import time

from serving.triton.server.group import end_group, has_exited, living_members, wait_for_exit

SLEEPER = "import time; time.sleep(600)"
PARENT = f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {SLEEPER!r}]); time.sleep({{}})"


def _start(code: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", code], start_new_session=True)


def _wait_for_members(group: int, count: int) -> None:
    deadline = time.monotonic() + 60
    while len(living_members(group)) != count and time.monotonic() < deadline:
        time.sleep(0.02)
    assert len(living_members(group)) == count


def test_the_children_of_a_running_process_end_with_it():
    process = _start(PARENT.format(600))
    _wait_for_members(process.pid, 2)
    end_group(process)
    assert living_members(process.pid) == []
    assert process.returncode == -9


def test_the_children_of_a_process_that_ended_by_itself_end_too():
    process = _start(PARENT.format(0))
    wait_for_exit(process, timeout_s=60)
    assert has_exited(process)
    assert len(living_members(process.pid)) == 1
    end_group(process)
    assert (living_members(process.pid), process.returncode) == ([], 0)


def test_waiting_for_an_exit_gives_up_before_it():
    process = _start(SLEEPER)
    wait_for_exit(process, timeout_s=0.2)
    assert not has_exited(process), "the wait lasted until the end"
    end_group(process)


ADOPTER = """
import ctypes, os, subprocess, sys, time
from pathlib import Path
from serving.processes import process_fields
from serving.triton.server.group import reap_orphans
ctypes.CDLL(None).prctl(36, 1)  # PR_SET_CHILD_SUBREAPER: as the first process of a container
own = [subprocess.Popen([sys.executable, "-c", ""], start_new_session=new) for new in (True, False)]
parent = "import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', 'input()'], stdin=0).pid)"
orphans = subprocess.check_output([sys.executable, "-c", parent], start_new_session=True, stdin=subprocess.DEVNULL)
pids = [*(one.pid for one in own), int(orphans)]
until = time.monotonic() + 60
while any(process_fields(pid)[0] != "Z" for pid in pids):
    assert time.monotonic() < until
    time.sleep(0.02)
reap_orphans()
print([Path(f"/proc/{pid}").exists() for pid in pids], [one.wait() for one in own])
"""


def test_only_orphans_of_ended_groups_are_reaped():
    found = subprocess.run([sys.executable, "-c", ADOPTER], capture_output=True, text=True, check=True, timeout=120)
    assert found.stdout == "[True, True, False] [0, 0]\n", found.stderr
