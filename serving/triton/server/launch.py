"""Starting the guard, and through it the server, with everything they need around them."""

import json
import os
import subprocess
import sys
from pathlib import Path

from serving.triton.server import guard
from serving.triton.server.environment import server_environment
from serving.triton.server.installation import Installation
from serving.triton.server.workspace import log_path


def launch(command: list[str], secret: str, installation: Installation, workspace: Path) -> subprocess.Popen[bytes]:
    """Start a server in a session of its own, so that Ctrl-C at the terminal reaches us alone.

    Args:
        command: the server and its arguments.
        secret: what its arguments are not to show.
        installation: what is started.
        workspace: a folder that is laid out, which gets the log.

    Returns:
        The guard: it leads the process group and ends with the server.
    """
    with log_path(workspace).open("ab") as log:  # appending, as the server and each stub write to it
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", guard.__name__, str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=workspace,  # a stub looks for modules in its working directory first
            env=server_environment(installation.libraries),
            start_new_session=True,
        )
    assert process.stdin is not None
    with process.stdin as pipe:
        pipe.write(json.dumps({"command": command, "secret": secret}).encode())
    return process
