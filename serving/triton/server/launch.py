"""Starting the guard, and through it the server, with everything they need around them."""

import os
import subprocess
import sys
from pathlib import Path

from serving.triton.server import guard
from serving.triton.server.command import command_line
from serving.triton.server.environment import server_environment
from serving.triton.server.installation import Installation
from serving.triton.server.settings import ServerSettings
from serving.triton.server.workspace import lay_out_backends, log_path


def launch(
    settings: ServerSettings, installation: Installation, workspace: Path, name: str, regions: str
) -> subprocess.Popen[bytes]:
    """Start a server in a session of its own, so that Ctrl-C at the terminal reaches us alone.

    Args:
        settings: what the user chose.
        installation: what is started.
        workspace: an empty folder, which gets the log.
        name: what the server calls itself, to whoever asks.
        regions: how the names of its shared memory begin.

    Returns:
        The guard: it leads the process group and ends with the server.
    """
    lay_out_backends(installation, workspace)
    command = command_line(settings, installation, workspace, name, regions)
    with log_path(workspace).open("ab") as log:  # appending, as the server and each stub write to it
        return subprocess.Popen(
            [sys.executable, "-P", "-m", guard.__name__, str(os.getpid()), regions, *command],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=server_environment(installation.libraries),
            start_new_session=True,
        )
