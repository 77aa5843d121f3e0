"""A server that goes on: a model whose worker dies or hangs is loaded anew, a server that does is started anew.

Triton says READY while a model's Python process is dead or hangs, and does not start it again (server#8604). Nothing is
ever given up: what fails again is tried again, after ever longer pauses.
"""

import asyncio
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from attendant.errors import AttendantError, ServerError
from clients.triton_client import TritonClient
from serving.backoff import Backoff
from serving.processes import AT_WORK, HANG_S, WorkMeter
from serving.triton.server.model_watch import TICK_S, ModelWatch, ServerPulse
from serving.triton.server.process import TritonServer
from serving.triton.server.resource_watch import ResourceBounds, wait_for_excess
from serving.triton.server.workers import server_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Supervision:
    """How a server is watched.

    Attributes:
        start_timeout_s: longest time until a started server is ready, and until a model is loaded.
        watch_s: between one look at a model and the next; 0 for none, and nothing is replaced.
        bounds: of what the server may hold; beyond them it is replaced in a quiet moment.
    """

    start_timeout_s: float
    watch_s: float = 0.5
    bounds: ResourceBounds = field(default_factory=ResourceBounds)


OnReady = Callable[[TritonServer, Mapping[str, str]], None]


async def supervise(start: Callable[[], TritonServer], supervision: Supervision, on_ready: OnReady) -> None:
    """Keep a server running until it is cancelled.

    Args:
        start: makes a server that was not started yet.
        supervision: how it is watched.
        on_ready: called whenever one is ready, with the models that it does not serve, each with the reason.

    Raises:
        AttendantError: the first server did not become ready, or serves none of its models.
    """
    backoff, first = Backoff(), True
    failed_before: TritonServer | None = None
    try:
        while True:
            server = start()
            try:
                server.start()
                await _wait_until_live(server, supervision.start_timeout_s)
                async with TritonClient(
                    server.endpoints.grpc,
                    supervision.start_timeout_s,
                    tls=server.own_client,
                    admin_key=server.admin_key,
                ) as client:
                    pulse = ServerPulse()
                    watches = [ModelWatch(name, server.group or 0, client, _report, pulse) for name in server.models]
                    await asyncio.gather(*(watch.check() for watch in watches))
                    failed = {watch.name: watch.reason for watch in watches if watch.reason}
                    if first and len(failed) == len(watches):
                        raise server.failure(f"an answer from each of {', '.join(failed)}", "; ".join(failed.values()))
                    on_ready(server, failed)
                    first = False
                    reason = await _watch(server, supervision, client, watches, pulse)
                    if not supervision.watch_s:
                        raise ServerError("a running tritonserver", reason, "see its log")
            except AttendantError as error:
                if first or not supervision.watch_s:
                    raise
                reason = str(error)
            finally:
                server.stop()
            if failed_before is not None:
                failed_before.remove_log()
            failed_before = server
            _report(f"starting the server anew: {reason}")
            await asyncio.sleep(backoff.pause_after_failure())
    finally:
        if failed_before is not None:
            failed_before.remove_log()


async def _wait_until_live(server: TritonServer, timeout_s: float) -> None:
    try:
        await server.wait_until_live(timeout_s)
    except ServerError:
        if not (late := server.end_late_workers()):
            raise
        _report(f"not loaded within {timeout_s:g} s, and ended: {', '.join(late)}")
        await server.wait_until_live(timeout_s)


async def _watch(
    server: TritonServer,
    supervision: Supervision,
    client: TritonClient,
    watches: list[ModelWatch],
    pulse: ServerPulse,
) -> str:
    """Why the server must be replaced, once it must."""
    tasks: list[asyncio.Future[str]] = [asyncio.ensure_future(_wait_for_end(server))]
    if supervision.watch_s:
        tasks += [asyncio.ensure_future(watch.watch(supervision.watch_s)) for watch in watches]
        tasks.append(asyncio.ensure_future(_wait_for_hang(server, client, watches, pulse)))
        tasks.append(asyncio.ensure_future(wait_for_excess(server.group or 0, supervision.bounds, _report)))
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return done.pop().result()
    finally:
        for task in tasks:
            task.cancel()


async def _wait_for_end(server: TritonServer) -> str:
    while (returncode := server.poll()) is None:
        await asyncio.sleep(TICK_S)
    return f"it ended with {returncode}; see {server.log}"


async def _wait_for_hang(
    server: TritonServer, client: TritonClient, watches: list[ModelWatch], pulse: ServerPulse
) -> str:
    process, meter, silent_s = server_of(server.group or 0), WorkMeter(), 0.0
    while True:
        question = asyncio.ensure_future(client.server_name())
        while not (await asyncio.wait({question}, timeout=TICK_S))[0]:
            works = process is not None and meter.share([process], TICK_S) > AT_WORK
            # While it loads a model it answers no question about itself, and others' requests as ever.
            silent_s = 0.0 if works or any(watch.loading for watch in watches) else silent_s + TICK_S
            if silent_s > HANG_S:
                server.kill()
                return f"it has neither worked nor answered for {silent_s:.1f} s"
        if question.exception() is None:
            silent_s, pulse.answered_s = 0.0, time.monotonic()
        await asyncio.sleep(TICK_S)


def _report(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
