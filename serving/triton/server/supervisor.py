"""A server that is started anew when one of its models answers no more.

Triton says READY while a model's Python process is dead or hangs, and does not start it again (server#8604).
"""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from attendant.errors import AttendantError, ServerError
from serving.triton.server.endpoints import Endpoints
from serving.triton.server.process import TritonServer

HOUR_S = 3600
FAILURES = 2
"""Failed looks in a row after which a server is started anew: one alone may be a machine that was busy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Supervision:
    """How a server is watched.

    Attributes:
        check: asks each model for a real answer, and raises an AttendantError unless it is a good one.
        start_timeout_s: longest time until a started server is ready.
        watch_s: between one look and the next; 0 for none, and an ended server is not replaced.
        restarts: how often in an hour a server is started anew before it is given up.
    """

    check: Callable[[Endpoints], None]
    start_timeout_s: float
    watch_s: float = 2.0
    restarts: int = 5


def supervise(
    start: Callable[[], TritonServer], supervision: Supervision, on_ready: Callable[[TritonServer], None]
) -> None:
    """Keep a server running until an exception, such as KeyboardInterrupt, ends this.

    Args:
        start: makes a server that was not started yet.
        supervision: how it is watched.
        on_ready: called whenever one is ready.

    Raises:
        AttendantError: the first server did not become ready, or too many had to be replaced.
    """
    replaced: list[float] = []
    while True:
        with start() as server:
            server.wait_until_ready(supervision.check, supervision.start_timeout_s)
            on_ready(server)
            reason = _watch(server, supervision)
            sys.stderr.write(f"starting the server anew: {reason}\n")
        now = time.monotonic()
        replaced = [then for then in replaced if now - then < HOUR_S] + [now]
        if len(replaced) > supervision.restarts:
            raise ServerError(
                f"at most {supervision.restarts} servers replaced in an hour", f"one more: {reason}", "see its log"
            )


def _watch(server: TritonServer, supervision: Supervision) -> str:
    if not supervision.watch_s:
        raise ServerError("a running tritonserver", f"it ended with {server.wait()}", f"see {server.log}")
    failures, reason = 0, ""
    while failures < FAILURES:
        time.sleep(supervision.watch_s)
        if (returncode := server.poll()) is not None:
            return f"it ended with {returncode}; see {server.log}"
        try:
            supervision.check(server.endpoints)
            failures = 0
        except AttendantError as error:
            failures += 1
            reason = str(error)
    return reason
