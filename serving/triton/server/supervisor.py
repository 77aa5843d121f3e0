"""A server that goes on: a model whose worker dies or hangs is loaded anew, a server that does is started anew.

Triton says READY while a model's Python process is dead or hangs, and does not start it again (server#8604). Nothing is
ever given up: what fails again is tried again, after ever longer pauses.
"""

import asyncio
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from typing import Never

from attendant.errors import AttendantError, ConfigError, ServerError
from attendant.printable import printable
from clients.triton_client import TritonClient
from serving.backoff import Backoff
from serving.processes import AT_WORK, HANG_S, WorkMeter
from serving.triton.server.group import reap_orphans
from serving.triton.server.life_signs import TICK_S, ServerPulse
from serving.triton.server.model_watch import LOADING, ModelWatch
from serving.triton.server.process import CRASH_SIGNALS, TritonServer
from serving.triton.server.resource_watch import ResourceBounds, wait_for_excess, wait_for_quiet
from serving.triton.server.stub_births import speak_for_the_dead
from serving.triton.server.stub_health import vouch_for_workers
from serving.triton.server.troubles import Troubles
from serving.triton.server.workers import server_of, workers_of
from serving.triton.server.wrong_models import WrongModels

LEAST_WATCH_S = 0.05
"""Who looked more often would look at every model all the time."""


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

    def __post_init__(self) -> None:
        if not self.start_timeout_s > 0:
            raise ConfigError("start_timeout_s above 0", f"{self.start_timeout_s:g}", "allow some seconds")
        if self.watch_s and not LEAST_WATCH_S <= self.watch_s < inf:
            expected = f"watch_s of at least {LEAST_WATCH_S:g}, or 0"
            raise ConfigError(expected, f"{self.watch_s:g}", "look every half a second, or never")


STUCK_QUIET_S, STUCK_PATIENCE_S = 1.0, 8.0
"""For how long a server must rest before it is replaced for one model, and how long that is waited for."""
SUSPECT_S = 5.0
"""How long a model must have been away for a server's crash to be laid at its door: a crash takes all others along."""
CRASHED_S = 2.0
"""How long a server that has crashed may take to end: it looks where it was first, and can hang in that."""
LOADS_S = 1.0
"""How long a server may take to say which models it is loading."""
GONE_S = 1.0
"""After which a server is replaced that has ended, where its guard does not say so."""
_SERVER = "the server"
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
    backoff, first, before = Backoff(), True, tuple[str, ...]()
    stuck, harmful = Troubles(), Troubles()  # that died as they were loaded, and with which the server crashed or grew
    grown = Troubles()  # of servers
    wrong: WrongModels | None = None
    failed_before, suspects = list[TritonServer](), list[str]()
    speaking: asyncio.Future[Never] | None = None
    try:
        while True:
            server = start()
            wrong = wrong or WrongModels(server.repository)
            try:
                changed = wrong.changed()  # of which one may never be loaded, with all that are loaded beside it
                later = {*stuck, *harmful, *wrong.names(), *changed}
                server.start(later=later, before=before, one_by_one=bool(suspects))
                before = server.models
                speaking = asyncio.ensure_future(speak_for_the_dead(server.group or 0, server.regions))
                for name in set(server.models) - later:
                    wrong.load(name)
                await _wait_until_live(server, supervision.start_timeout_s)
                async with TritonClient(
                    server.endpoints.grpc,
                    supervision.start_timeout_s,
                    tls=server.own_client,
                    admin_key=server.admin_key,
                ) as client:
                    pulse = ServerPulse()
                    watches = [
                        ModelWatch(name, server.group or 0, client, _report, pulse, wrong, harmful.due_s(name))
                        for name in server.models
                    ]
                    await asyncio.gather(*(watch.check() for watch in watches))
                    if first and all(watch.reason for watch in watches):  # as on a machine that is very busy
                        await asyncio.sleep(1.0)
                        await asyncio.gather(*(watch.check() for watch in watches if not watch.is_wrong))
                    reasons = dict.fromkeys(changed, "its files have changed: it is loaded behind the others")
                    reasons |= dict.fromkeys(harmful, "the server crashed, or grew too large, as it was loaded")
                    failed = {watch.name: reasons.get(watch.name, watch.reason) for watch in watches if watch.reason}
                    if first and len(failed) == len(watches):
                        raise server.failure(f"an answer from each of {', '.join(failed)}", "; ".join(failed.values()))
                    on_ready(server, failed)
                    first, suspects = False, []
                    reason = await _watch(server, supervision, client, watches, pulse, stuck, harmful, grown)
                    if not supervision.watch_s:
                        raise ServerError("a running tritonserver", reason, "see its log")
            except Exception as error:  # the machine may lack descriptors, processes, room on a disk
                if first and not isinstance(error, (AttendantError, OSError)):
                    raise  # a mistake of ours
                ended, reason = server.poll() is not None, str(error)
                left_out = server.unfinished_models() if first and not ended else server.ended_late
                if not first and len(left_out) == len(server.models):  # it is the machine that is slow
                    left_out = []
                if left_out and not ended:
                    reason = f"never loaded, for which Triton waits: {', '.join(left_out)}"
                if first and not left_out and (crashed_with := server.models_at_the_crash()):
                    reason = f"the server crashed while it loaded {', '.join(crashed_with)}"
                    # Of several, a start that loads one after another shows which.
                    is_clear = len(crashed_with) == 1 or suspects
                    left_out, suspects = (crashed_with, []) if is_clear else ([], crashed_with)
                serves_others = len({*stuck, *harmful, *left_out}) < len(server.models)
                if not supervision.watch_s or (first and not (serves_others and (left_out or suspects))):
                    raise
                for name in left_out:
                    (harmful if ended else stuck).count(name)
            except asyncio.CancelledError:  # perhaps between the end of the server and the word of it
                failed_before.append(server)
                raise
            finally:
                if speaking is not None:
                    speaking.cancel()
                server.stop()
            # Of the last one the log stays for a while; where descriptors or the disk have run out, so do folders.
            failed_before = [server, *(one for one in failed_before if not one.remove_log())]
            _report(f"starting the server anew: {reason}")
            await asyncio.sleep(backoff.pause_after_failure())
    finally:
        for one in failed_before:
            one.remove_log()


async def _wait_until_live(server: TritonServer, timeout_s: float) -> None:
    for is_last in (False, True):
        try:
            await server.wait_until_live(timeout_s)
        except ServerError:
            if not (late := server.late_models()):
                raise
        else:
            return
        if is_last or not 1 < len(late) == len(server.models):
            break
        _report(f"no model loaded within {timeout_s:g} s, as on a busy machine: waiting once more as long")
    _report(f"not loaded within {timeout_s:g} s, and ended: {', '.join(server.end_late_workers())}")
    await server.wait_until_live(timeout_s)


async def _watch(
    server: TritonServer,
    supervision: Supervision,
    client: TritonClient,
    watches: list[ModelWatch],
    pulse: ServerPulse,
    stuck: Troubles,
    harmful: Troubles,
    grown: Troubles,
) -> str:
    """Why the server must be replaced, once it must."""
    failed = [watch.name for watch in watches if watch.reason]
    end = asyncio.ensure_future(_wait_for_end(server))
    tasks: list[asyncio.Future[str]] = [end]
    beside: list[asyncio.Future[None]] = []
    if supervision.watch_s:
        beside.append(asyncio.ensure_future(vouch_for_workers(server.group or 0)))
        due_s = grown.due_s(_SERVER)
        excess = asyncio.ensure_future(wait_for_excess(server.group or 0, supervision.bounds, _report, due_s))
        tasks += [asyncio.ensure_future(watch.watch(supervision.watch_s)) for watch in watches]
        tasks.append(asyncio.ensure_future(_wait_for_hang(server, client, watches, pulse)))
        tasks.append(asyncio.ensure_future(_wait_for_stuck(server, watches, stuck)))
        tasks.append(excess)
        beside.append(asyncio.ensure_future(_note_loads_for_others(server, client, watches, pulse)))
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        grew = supervision.watch_s > 0 and excess in done
        if grew:
            grown.count(_SERVER)
        if grew or (end in done and -(server.returncode or 0) in CRASH_SIGNALS):
            _blame(watches, failed, harmful)
        for watch in watches:
            if not watch.reason:
                harmful.pop(watch.name, None)
                if grew:  # what the next server needs with it is no excess
                    stuck.pop(watch.name, None)
        return done.pop().result()
    finally:
        for task in tasks:
            task.cancel()
        for one in beside:
            one.cancel()


def _blame(watches: Sequence[ModelWatch], failed: Sequence[str], harmful: Troubles) -> None:
    for watch in watches:
        was_tried = watch.reason and not watch.is_unfit
        if was_tried and (watch.name in failed or time.monotonic() - watch.away_s > SUSPECT_S):
            harmful.count(watch.name)
            pause_s = harmful.due_s(watch.name) - time.monotonic()
            _report(f"{watch.name} is not loaded for {pause_s:.0f} s: the server failed while it was being loaded")


async def _wait_for_stuck(server: TritonServer, watches: list[ModelWatch], stuck: Troubles) -> str:
    while True:
        for watch in watches:
            if watch.stuck and time.monotonic() > stuck.due_s(watch.name):
                reason = f"a worker of {watch.name} died as it was loaded, for which Triton waits without end"
                _report(f"{reason}: the server is replaced in a quiet moment, or else in {STUCK_PATIENCE_S:.0f} s")
                await wait_for_quiet(server.group or 0, STUCK_QUIET_S, STUCK_PATIENCE_S)
                stuck.count(watch.name)
                return reason
        await asyncio.sleep(TICK_S)


async def _note_loads_for_others(
    server: TritonServer, client: TritonClient, watches: list[ModelWatch], pulse: ServerPulse
) -> None:
    watched = {watch.name for watch in watches}
    while True:
        await asyncio.sleep(TICK_S)
        others = set[str]()
        with suppress(AttendantError, OSError):  # if it does not say in time, they may all be; OSError: no descriptor
            if any(watch.loading for watch in watches):
                others = {one.model for one in workers_of(server.group or 0) if one.lives} - watched
            if others:
                async with asyncio.timeout(LOADS_S):
                    failed = await client.failed_models()
                others = {name for name in others if failed.get(name) == LOADING}
        pulse.loading_for_others = others


async def _wait_for_end(server: TritonServer) -> str:
    crashed_s = 0.0
    while (returncode := server.poll()) is None:
        server.restore_workspace()
        if os.getpid() == 1:
            reap_orphans()
        crashed_s = crashed_s + TICK_S if server.has_crashed() else 0.0
        if crashed_s > CRASHED_S:
            server.kill()
            return f"it crashed, and hangs; see {server.log}"
        await asyncio.sleep(TICK_S)
    return f"it ended with {returncode}; see {server.log}"


async def _wait_for_hang(
    server: TritonServer, client: TritonClient, watches: list[ModelWatch], pulse: ServerPulse
) -> str:
    def asked() -> asyncio.Future[str]:
        question = asyncio.ensure_future(client.server_name())
        question.add_done_callback(lambda done: done.cancelled() or done.exception())  # if the server is replaced
        return question

    process, meter, silent_s = server_of(server.group or 0), WorkMeter(), 0.0
    question = asked()
    while True:
        await asyncio.wait({question}, timeout=TICK_S)
        if question.done() and question.exception() is None:
            silent_s, pulse.answered_s = 0.0, time.monotonic()
        else:
            works = process is not None and meter.share([process], TICK_S) > AT_WORK
            # While it loads a model it answers no question about itself, and others' requests as ever.
            loads = any(watch.loading for watch in watches) and not (process is not None and process.is_stopped)
            silent_s = 0.0 if works or loads else silent_s + TICK_S
            is_gone = process is not None and not process.lives  # and its guard does not say so
            if silent_s > (GONE_S if is_gone else HANG_S):
                question.cancel()
                server.kill()
                return f"it has neither worked nor answered for {silent_s:.1f} s"
        if question.done():
            await asyncio.sleep(TICK_S)
            question = asked()


def _report(line: str) -> None:
    sys.stderr.write(f"{printable(line)}\n")
    sys.stderr.flush()
