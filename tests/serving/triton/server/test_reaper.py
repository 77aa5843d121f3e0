from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from serving.triton.server.group import living_members

STARTER = """
import os, subprocess, sys, time
from pathlib import Path
from serving.triton.server.reaper import Reaper

group = subprocess.Popen(["sleep", "600"], stdout=subprocess.DEVNULL, start_new_session=True)
reaper = Reaper(Path(sys.argv[1]), "no regions have this name")
if "unwatched" not in sys.argv:
    reaper.watch(group.pid)
if "ended" in sys.argv:
    reaper.group_has_ended()
print(group.pid, flush=True)
if "killed" in sys.argv:
    os.kill(os.getpid(), 9)
"""


def _run(folder: Path, *words: str, **options: Any) -> int:
    folder.mkdir()
    command = [sys.executable, "-c", STARTER, str(folder), *words]
    return int(subprocess.run(command, stdout=subprocess.PIPE, **options).stdout)


def _becomes_true(condition, within_s: float = 60.0) -> bool:
    until = time.monotonic() + within_s
    while not (found := condition()) and time.monotonic() < until:
        time.sleep(0.05)
    return bool(found)


def test_what_a_killed_starter_leaves_goes(tmp_path: Path):
    group = _run(tmp_path / "left", "killed")
    assert _becomes_true(lambda: not living_members(group) and not (tmp_path / "left").exists())


def test_so_does_the_folder_of_a_server_whose_starter_was_killed_before_it_began(tmp_path: Path):
    group = _run(tmp_path / "left", "unwatched", "killed")
    assert _becomes_true(lambda: not (tmp_path / "left").exists())
    assert len(living_members(group)) == 1, "it never was the server's"
    subprocess.run(["kill", str(group)], check=True)


def test_so_it_does_where_no_tool_is_on_the_path(tmp_path: Path):
    (tmp_path / "sleep").symlink_to("/bin/sleep")
    group = _run(tmp_path / "left", "killed", env={**os.environ, "PATH": str(tmp_path)})  # noqa: TID251
    assert _becomes_true(lambda: not living_members(group) and not (tmp_path / "left").exists(), within_s=20.0)


def test_the_log_of_a_server_that_failed_outlives_a_starter_that_ends_by_itself_alone(tmp_path: Path):
    groups = [_run(tmp_path / "killed", "ended", "killed"), _run(tmp_path / "log", "ended")]
    assert _becomes_true(lambda: not (tmp_path / "killed").exists())
    time.sleep(0.3)
    assert (tmp_path / "log").exists()
    assert [len(living_members(group)) for group in groups] == [1, 1]  # their numbers may be another's by now
    for group in groups:
        subprocess.run(["kill", str(group)], check=True)
