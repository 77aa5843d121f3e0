"""The parent of the server: it lets no process of the server outlive the program that started it.

It leads the server's process group, passes SIGTERM on, ends with the server's own status, and kills the group once its
starter is gone; the reaper removes what is left then. Should the guard itself be killed, the kernel kills the server
(PR_SET_PDEATHSIG), and its stubs end as they see it gone.

    python -P -m serving.triton.server.guard <pid of the starter>

Standard input holds the server's command line and the secret in it, as JSON: neither stays where others can read it.
"""

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress

from serving.triton.server.hidden_argument import has_parsed, hide_argument

POLL_S = 0.1
SIGNALLED_STATUS = 128
PR_SET_PDEATHSIG = 1
"""Of linux/prctl.h."""


def guard(starter: int, command: list[str], secret: str) -> int:
    """Run the server until it ends or its starter does.

    Args:
        starter: the process that must be our parent for as long as the server runs.
        command: the server and its arguments.
        secret: what its arguments are not to show.

    Returns:
        The server's exit status, or 128 and the number of the signal that ended it, as a shell does.
    """
    # Nothing else runs here but this one thread, whose end the kernel takes for that of the process.
    server = subprocess.Popen(command, preexec_fn=_die_with_parent)
    signal.signal(signal.SIGTERM, lambda *_: server.send_signal(signal.SIGTERM))
    while server.poll() is None and os.getppid() == starter:
        with suppress(
            OSError
        ):  # it has ended, or this machine lets nobody write there (docs/explanation/threat-model.md)
            if secret and has_parsed(server.pid):
                hide_argument(server.pid, secret)
                secret = ""
        time.sleep(POLL_S)
    if os.getppid() != starter:
        os.killpg(os.getpid(), signal.SIGKILL)  # the server, its stubs, and this process
    status = server.wait()
    return status if status >= 0 else SIGNALLED_STATUS - status


def _die_with_parent() -> None:
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def returncode_from_status(status: int) -> int:
    """Read the server's returncode, negative for a signal as in ``subprocess``, out of the guard's own."""
    return SIGNALLED_STATUS - status if status > SIGNALLED_STATUS else status


if __name__ == "__main__":
    sys.exit(guard(int(sys.argv[1]), **json.load(sys.stdin)))
