"""A call in a process of its own, bounded in time and memory: what reads and runs graphs of others.

A graph is a program: it may never end, make tensors of any size, or bring a runtime to end its process. The kernel
bounds the memory of the process; whoever started it ends it where a library keeps a graph for too long.
"""

import pickle  # nosec B403  both ends are ours
import resource
import signal
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from subprocess import Popen, TimeoutExpired
from typing import Any

from rich.console import Console

from attendant.errors import ArtefactError, AttendantError
from attendant.quantities import bytes_text
from attendant.tasks import resolve
from attendant.temporary_folders import temporary_folder
from serving.processes import connection_of, receive, send, start_python

TIMEOUT_S = 300.0
"""How long a library may load a graph or run it once: of models of published size that takes seconds."""
MEMORY_SHARE = 0.75
"""Of the memory that is available, what such a process may take."""
_PATIENCE_S = 5.0
_DO_NOT_USE = "do not use this graph, or export the model again"
_MEMORY = Path("/proc/meminfo")
_LIMIT, _USED = Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")
_parent: Connection | None = None
"""In such a process, whom it tells what it is doing."""
Call = tuple[str, tuple[Any, ...], int, str]
"""The function, its arguments, the bytes that it may take, and the folder for its temporary files."""


def run_bounded(
    function: str, folder: Path, *arguments: object, timeout_s: float = TIMEOUT_S, most_bytes: int | None = None
) -> Any:
    """Call a function in a process of its own, which ends with this one.

    Args:
        function: ``module:function``, imported there alone; what it does with graphs is :func:`guarded`.
        folder: of the artefact, its first argument.
        arguments: the others.
        timeout_s: how long a library may have a graph at a time.
        most_bytes: that the process may take; if not given, :data:`MEMORY_SHARE` of what is available.

    Returns:
        What the function returned.

    Raises:
        ArtefactError: a graph took too long or too much memory, or ended the process.
        Exception: what the function raised, with the traceback of that process as a note.
    """
    most_bytes = int(MEMORY_SHARE * available_memory()) if most_bytes is None else most_bytes
    process, connection = start_python(__name__, serve_call.__name__)
    with temporary_folder() as temporary:  # a process that is killed would leave it
        call = function, (folder, *arguments), most_bytes, temporary
        try:
            kind, answer = _await_answer(process, connection, call, timeout_s)
        finally:
            connection.close()
            process.kill()
            process.wait()
            Console(stderr=True).show_cursor()  # which a bar of progress hid
    if kind == "returned":
        return answer
    error, details = answer
    error.add_note(details)
    raise error


def _await_answer(process: Popen[bytes], connection: Connection, call: Call, timeout_s: float) -> tuple[str, Any]:
    _, (folder, *_), most_bytes, _ = call
    expected = ""
    try:
        send(connection, call)
        while connection.poll(timeout_s if expected else None):
            kind, value = receive(connection)
            if kind != "guarded":
                return kind, value
            expected = value
    except (EOFError, ConnectionError) as error:
        seconds = resource.getrlimit(resource.RLIMIT_CPU)[0]
        time = f" and {seconds} s of a processor (ulimit -t)" if seconds != resource.RLIM_INFINITY else ""
        found = f"the process ended by {_describe_end(process)}; it may take {bytes_text(most_bytes)}{time}"
        raise ArtefactError(expected or f"the graphs of {folder} to run", found, _DO_NOT_USE) from error
    remedy = "give it longer with --timeout-s, or do not use this graph: it may never end"
    raise ArtefactError(f"{expected} within {timeout_s:g} s", "it still at work", remedy)


def _describe_end(process: Popen[bytes]) -> str:
    with suppress(TimeoutExpired):
        process.wait(_PATIENCE_S)
    process.kill()
    status = process.wait()
    return f"status {status}" if status >= 0 else signal.Signals(-status).name


@contextmanager
def guarded(expected: str) -> Iterator[None]:
    """Leave a graph to a library: its failure becomes the graph's, and :func:`run_bounded` bounds its time.

    Args:
        expected: what the library does with which graph: ``OpenVINO to load a/model.onnx``.

    Raises:
        ArtefactError: the library raised an error.
    """
    _tell(expected)
    try:
        yield
    except AttendantError:
        raise
    except Exception as error:  # the exceptions of runtimes have no common base
        raise ArtefactError(expected, f"{type(error).__name__}: {error}".strip(": "), _DO_NOT_USE) from error
    finally:
        _tell("")


def _tell(expected: str) -> None:
    if _parent is not None:
        send(_parent, ("guarded", expected))


def available_memory() -> int:
    """Bytes that processes here may still take: of the machine, or of the container."""
    entries = dict(line.split(":") for line in _MEMORY.read_text(encoding="ascii").splitlines())
    found = int(entries["MemAvailable"].split()[0]) << 10
    with suppress(OSError, ValueError):  # no container, or one without a limit: "max"
        found = min(found, int(_LIMIT.read_text()) - int(_USED.read_text()))
    return found


def serve_call(descriptor: int) -> None:
    """Answer the one call that comes."""
    global _parent
    _parent = connection_of(descriptor)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears of a Ctrl-C, and ends this process
    function, arguments, most_bytes, tempfile.tempdir = receive(_parent)
    try:
        call = resolve(function)
        _bound_memory(most_bytes)
        kind, answer = "returned", call(*arguments)
    except Exception as error:
        kind, answer = "raised", (_make_sendable(error, most_bytes), traceback.format_exc())
    send(_parent, (kind, answer))


def _make_sendable(error: Exception, most_bytes: int) -> Exception:
    if isinstance(error, MemoryError):
        return ArtefactError(f"graphs that take at most {bytes_text(most_bytes)} to check", "more", _DO_NOT_USE)
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301  our own  # nosec B301
    except Exception:  # whatever another library's error may do
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def _bound_memory(most_bytes: int) -> None:
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    taken = int(status["VmData"].split()[0]) << 10
    # Not addresses (RLIMIT_AS): runtimes map files of weights, and drivers reserve far more than they take.
    outer = resource.getrlimit(resource.RLIMIT_DATA)[1]  # of a process that is bounded itself
    most = taken + most_bytes if outer == resource.RLIM_INFINITY else min(taken + most_bytes, outer)
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
