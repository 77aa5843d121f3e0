"""A small parent for work that a signal has to end at once.

Torch's imports, exports in processes of their own and a server with its stubs cannot be interrupted everywhere within
a second and without a traceback. So they never learn of a Ctrl-C: their parent, which imports none of them and only
waits, kills them all and removes what they leave behind.
"""

import ctypes
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from attendant.errors import MachineError
from attendant.temporary_folders import folder_prefix
from serving.triton.server.workspace import remove_dead_workspaces

ENDING = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
"""The signals that end the work: Ctrl-C, a request to end, a terminal that was closed."""
SIGNALLED_STATUS = 128
_SET_PARENT_DEATH_SIGNAL, _SET_CHILD_SUBREAPER = 1, 36
_SHOW_CURSOR = "\x1b[?25h"


def supervise(work: Callable[[], int], clean_up: Callable[[], None]) -> int:
    """Fork a process for some work, and wait until it ends or a signal of :data:`ENDING` comes.

    This process must not have started a thread. Temporary files of the work lie in one folder, which stays if the work
    fails by itself: its error may name a log in there.

    Args:
        work: what the new process does; returns its exit status.
        clean_up: called when the work was killed, and no process of it lives.

    Returns:
        In the new process what ``work`` returns, and in this one the exit status of the new one, or 128 and the number
        of the signal. Either way the process should now end with it.

    Raises:
        MachineError: something else killed the work.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {*ENDING, signal.SIGCHLD})
    remove_dead_workspaces()  # those of quickstarts that were killed are called alike
    temporary = Path(tempfile.mkdtemp(prefix=folder_prefix(os.getpid())))
    _prctl(_SET_CHILD_SUBREAPER, 1)  # what loses its parent becomes our child, so that we find it
    parent, worker = os.getpid(), os.fork()
    if worker == 0:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # for all that it starts, too
        _prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(SIGNALLED_STATUS + signal.SIGKILL)
        tempfile.tempdir = str(temporary)
        os.environ["TMPDIR"] = str(temporary)  # noqa: TID251  (a process launcher)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return work()
    ending = _wait(worker)
    _kill_descendants()
    if ending <= 0:
        shutil.rmtree(temporary, ignore_errors=True)
    if ending >= 0:
        return ending
    if sys.stderr.isatty():
        sys.stderr.write(f"{_SHOW_CURSOR}\n")  # a progress bar hides it
    clean_up()
    if -ending not in ENDING:
        remedy = "see that there is enough memory"
        raise MachineError("the quickstart to end by itself", f"signal {-ending} ended it", remedy)
    return SIGNALLED_STATUS - ending


def _wait(worker: int) -> int:
    """The worker's exit status, or the number of a signal to it or to us, made negative."""
    while True:
        received = signal.sigwait({*ENDING, signal.SIGCHLD})
        if received in ENDING:
            return -received
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] == worker:
                    return os.waitstatus_to_exitcode(ended[1])


def _kill_descendants() -> None:
    stopped: set[int] = set()
    while running := _descendants() - stopped:  # so that none sees another end, and complains
        _send(signal.SIGSTOP, running)
        stopped |= running
    with suppress(ChildProcessError):
        while True:
            _send(signal.SIGKILL, _descendants())
            os.waitpid(-1, 0)


def _send(number: signal.Signals, processes: set[int]) -> None:
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process, number)


def _descendants() -> set[int]:
    parents = {int(entry.name): _parent_of(entry) for entry in Path("/proc").glob("[0-9]*")}
    found = {os.getpid()}
    while children := {child for child, parent in parents.items() if parent in found} - found:
        found |= children
    return found - {os.getpid()}


def _parent_of(process: Path) -> int | None:
    with suppress(OSError):  # it has ended
        return int((process / "stat").read_text().rpartition(")")[2].split()[1])
    return None


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
