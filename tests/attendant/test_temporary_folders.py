"""Folders of a process that is killed are told from those of one that lives."""

import os
import subprocess
import sys
from pathlib import Path

from attendant.temporary_folders import temporary_folder
from serving.triton.server.workspace import remove_dead_workspaces

KILLED = """
import os
from attendant.temporary_folders import temporary_folder
with temporary_folder() as folder:
    print(folder, flush=True)
    os.kill(os.getpid(), 9)
"""


def test_a_folder_whose_process_was_killed_goes_with_the_next_start_of_a_server():
    left = Path(subprocess.run([sys.executable, "-c", KILLED], stdout=subprocess.PIPE, text=True).stdout.strip())
    assert left.is_dir()
    with temporary_folder() as ours:
        remove_dead_workspaces()
        assert not left.exists() and Path(ours).is_dir()
    assert not Path(ours).exists()


def test_one_that_is_nested_deeper_than_python_can_follow_keeps_no_server_from_starting():
    left = Path(subprocess.run([sys.executable, "-c", KILLED], stdout=subprocess.PIPE, text=True).stdout.strip())
    here = os.open(left, os.O_RDONLY)
    for _ in range(3 * sys.getrecursionlimit()):
        os.mkdir("d", dir_fd=here)
        deeper = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = deeper
    os.close(here)
    try:
        remove_dead_workspaces()
    finally:
        subprocess.run(["rm", "-rf", str(left)], check=True)
