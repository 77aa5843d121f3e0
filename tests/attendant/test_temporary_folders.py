"""Folders of a process that is killed are told from those of one that lives."""

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
