"""The parent of the server: it lets no process of the server outlive the program that started it.

A starter that is killed with SIGKILL cannot clean up. So the guard leads the server's process group, passes
SIGTERM on, ends with the server's own status, and kills the group once its starter is gone. (PR_SET_PDEATHSIG
would tie the server's life to the thread that started it, and leave its stubs to themselves.)

    python -P -m serving.triton.server.guard <pid of the starter> <regions> <server> <argument>…
"""

import os
import signal
import subprocess
import sys
import time

from serving.triton.server.shared_memory import remove_regions

POLL_S = 0.1
SIGNALLED_STATUS = 128


def guard(starter: int, regions: str, command: list[str]) -> int:
    """Run the server until it ends or its starter does.

    Args:
        starter: the process that must be our parent for as long as the server runs.
        regions: how the names of the server's shared memory begin.
        command: the server and its arguments.

    Returns:
        The server's exit status, or 128 and the number of the signal that ended it, as a shell does.
    """
    server = subprocess.Popen(command)
    signal.signal(signal.SIGTERM, lambda *_: server.send_signal(signal.SIGTERM))
    while server.poll() is None and os.getppid() == starter:
        time.sleep(POLL_S)
    if os.getppid() != starter:
        server.kill()
        server.wait()  # it alone makes regions: none appears after this
        remove_regions(regions)
        os.killpg(os.getpid(), signal.SIGKILL)  # the stubs, and this process
    status = server.wait()
    return status if status >= 0 else SIGNALLED_STATUS - status


def returncode_from_status(status: int) -> int:
    """Read the server's returncode, negative for a signal as in ``subprocess``, out of the guard's own."""
    return SIGNALLED_STATUS - status if status > SIGNALLED_STATUS else status


if __name__ == "__main__":
    sys.exit(guard(int(sys.argv[1]), sys.argv[2], sys.argv[3:]))
