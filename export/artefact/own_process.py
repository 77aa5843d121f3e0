"""Run calls at the same time, each in a fresh process of its own.

The processes are forked from one that has imported what an export needs (:mod:`export.artefact.preloaded`): that takes
two seconds and more, and would again in each of them. Pipes only: the queues and pools of ``multiprocessing`` share
semaphores, which stay in ``/dev/shm`` when the program is killed.
"""

import gc
import os
import signal
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from multiprocessing import current_process, forkserver, get_context, parent_process
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from threading import RLock, Thread
from typing import Any

from attendant.errors import AttendantError, ExportError
from attendant.folders import FULL_DISK
from attendant.temporary_folders import SHARED_PLACE, temporary_folder

Call = tuple[Any, ...]
IMPORTED = [
    "export.artefact.preloaded",
    "onnxscript.function_libs.torch_lib.ops",
    "onnxscript.optimizer",
    "onnxscript.rewriter.onnx_fusions",
    "torch._dynamo",
    "torch.export",
    "torch.onnx",
]
"""What the processes are forked with."""
_TERMINATED = 143
_LONGEST_PLACE = 45
_PATIENCE_S = 1.0
_COLLECTED_EACH = 50_000
"""Objects between two looks for garbage, of which tracing makes none: with 700 they are a tenth of its time."""
_REMEDY = "see that there is enough memory, and that a script of yours exports behind `if __name__ == '__main__':`"


def run_each(function: Callable[..., None], calls: Mapping[str, Call]) -> Iterator[str]:
    """Call a function once for each entry, all at the same time.

    Args:
        function: importable by name; what it returns is dropped.
        calls: name → arguments.

    Yields:
        The name of each call that has ended, as it ends.

    Raises:
        ExportError: a process died, or a call raised an error of another library.
        AttendantError: what a call raised. The other processes are ended.
        OSError: the disk is full, which whoever knows the place can say better.
    """
    jobs = {name: _start(function, arguments) for name, arguments in calls.items()}
    waiting = {receiver: name for name, (receiver, _) in jobs.items()}
    try:
        while waiting:
            for receiver in wait(list(waiting)):
                assert isinstance(receiver, Connection)
                _raise_failure(receiver, waiting[receiver], jobs[waiting[receiver]][1])
                yield waiting.pop(receiver)
    finally:
        for receiver, process in jobs.values():
            receiver.close()
            if receiver in waiting:  # one that has reported ends by itself, and gives back what it holds
                process.terminate()
            process.join()


def start_importing() -> None:
    """Begin to import what an export needs, while this process does something else."""
    # It keeps its socket in a folder of its own, which stays for ever where this process is killed, if it is not one of
    # those that a later start removes.
    current_process()._config.setdefault("tempdir", _folder().name)  # type: ignore[attr-defined]
    forkserver.set_forkserver_preload(IMPORTED)
    with _own_modules_alone():
        forkserver.ensure_running()


@contextmanager
def _own_modules_alone() -> Iterator[None]:
    # It would look in the working directory first, where a package of the reader's may be called as one of ours.
    environment, root = os.environ, str(Path(__file__).parents[2])  # noqa: TID251  (a process launcher)
    wanted = {"PYTHONSAFEPATH": "1"}
    if root != sysconfig.get_path("purelib"):  # which hides nothing of Python's own only where it stands last
        wanted["PYTHONPATH"] = os.pathsep.join([root, *filter(None, [environment.get("PYTHONPATH")])])
    before = {name: environment.get(name) for name in wanted}
    environment.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del environment[name]
            else:
                environment[name] = value


@cache
def _folder() -> "TemporaryDirectory[str]":
    # The kernel takes 107 bytes of a socket's path.
    return temporary_folder(Path(gettempdir()) if len(os.fsencode(gettempdir())) <= _LONGEST_PLACE else SHARED_PLACE)


def _start(function: Callable[..., None], arguments: Call) -> tuple[Connection, BaseProcess]:
    start_importing()
    context = get_context("forkserver")
    receiver, sender = context.Pipe(duplex=False)
    environment = dict(os.environ)  # noqa: TID251  (a process launcher)
    process = context.Process(target=_call, args=(environment, sender, function, arguments), daemon=True)
    process.start()
    sender.close()
    return receiver, process


def _call(environment: dict[str, str], sender: Connection, function: Callable[..., None], arguments: Call) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears of a Ctrl-C, and ends this process
    # By an exception, so that what other libraries share is given back.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(_TERMINATED))
    # A parent that is killed ends nobody: its work would go on for minutes, in a folder that nobody will read.
    Thread(target=_await_end_of_parent, daemon=True).start()
    # torch's tracing asks tqdm for a bar, and that for a lock among processes: a semaphore, which lies in /dev/shm
    # until this one ends, and for good when it is killed.
    with suppress(ImportError):
        from tqdm import tqdm  # type: ignore[import-untyped]

        tqdm.set_lock(RLock())
    forked_with = os.environ  # noqa: TID251  (of the first call's time)
    forked_with.clear()
    forked_with.update(environment)
    gc.freeze()
    gc.set_threshold(_COLLECTED_EACH)
    try:
        function(*arguments)
        sender.send(None)
    except AttendantError as error:
        sender.send(error)
    except OSError as error:
        sender.send(error if error.errno in FULL_DISK else _unexpected_error(function, error))
    except Exception as error:  # another library's, which need not survive the way
        sender.send(_unexpected_error(function, error))


def _await_end_of_parent() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_PATIENCE_S)  # to give back what it shares: a library may not come back to Python for long
    os.kill(os.getpid(), signal.SIGKILL)


def _unexpected_error(function: Callable[..., None], error: Exception) -> ExportError:
    found = f"{type(error).__name__}: {error}"
    return ExportError(f"{function.__name__} to succeed", found, "call it directly to see the traceback")


def _raise_failure(receiver: Connection, name: str, process: BaseProcess) -> None:
    try:
        failure = receiver.recv()
    except EOFError as error:
        process.join()
        found = f"it ended with {process.exitcode}"
        raise ExportError(f"the process of {name!r} to report", found, _REMEDY) from error
    if failure is not None:
        raise failure
