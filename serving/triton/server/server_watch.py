"""One running server, watched until it must be replaced: whether it answers, what it holds, and each of its models."""

import asyncio
import os
import sys
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Never

from attendant.errors import AttendantError
from attendant.printable import printable
from clients.triton_client import TritonClient
from serving.processes import AT_WORK, HANG_S, WorkMeter
from serving.triton.server.futures import begin
from serving.triton.server.group import reap_orphans
from serving.triton.server.life_signs import TICK_S, ServerPulse
from serving.triton.server.model_watch import ModelWatch
from serving.triton.server.process import CRASH_SIGNALS, TritonServer
from serving.triton.server.resource_watch import ResourceBounds, wait_for_excess, wait_for_quiet
from serving.triton.server.stub_health import vouch_for_workers
from serving.triton.server.troubles import Troubles
from serving.triton.server.workers import server_of
from serving.triton.server.wrong_models import WrongModels

ANSWER_S = 1.0
"""How long a server may take to learn which models it has."""
BEGUN_S = 10.0
"""How long a server that was started anew may take to load its models until those that it lacks are named."""
STUCK_QUIET_S, STUCK_PATIENCE_S = 1.0, 8.0
"""For how long a server must rest before it is replaced for one model, and how long that is waited for."""
SUSPECT_S = 5.0
"""How long a model that was served must have been away for a server's crash to be laid at its door, as a crash takes
all others along; and how long before the crash it may last have been tried."""
CRASHED_S = 2.0
"""How long a server that has crashed may take to end: it looks where it was first, and can hang in that."""
LOADING_PACE = 0.25
"""How much of a silence counts in which it loads a model."""
GONE_S = 1.0
"""After which a server is replaced that has ended, where its guard does not say so."""
_SERVER = "the server"
OnReady = Callable[[TritonServer, Mapping[str, str]], None]


@dataclass(frozen=True, slots=True)
class ServerTroubles:
    """What is known over all servers, one after the other.

    Attributes:
        stuck: models that died as they were loaded.
        harmful: models with which a server crashed or grew.
        grown: servers.
    """

    stuck: Troubles = field(default_factory=Troubles)
    harmful: Troubles = field(default_factory=Troubles)
    grown: Troubles = field(default_factory=Troubles)

    def models(self) -> set[str]:
        """Those that are not to be loaded at once."""
        return {*self.stuck, *self.harmful}


class ServerWatch:
    """Of a server that is live; for one call of :meth:`watch`.

    Attributes:
        has_begun: set once it was said to be ready.
    """

    def __init__(
        self,
        server: TritonServer,
        client: TritonClient,
        troubles: ServerTroubles,
        wrong: WrongModels,
        watch_s: float,
        bounds: ResourceBounds,
        *,
        one_by_one: bool = False,
    ) -> None:
        """Look at nothing yet.

        Args:
            server: that is live.
            client: of it, which may change it.
            troubles: of the servers before.
            wrong: the models that are not to be loaded again at once.
            watch_s: between one look at a model and the next; 0 for one look, and nothing is loaded anew.
            bounds: of what the server may hold.
            one_by_one: whether its models are loaded one after another, so that a crash shows whose it is.
        """
        self._server, self._client, self._watch_s, self._bounds = server, client, watch_s, bounds
        self._group, self._troubles, self._pulse = server.group or 0, troubles, ServerPulse(one_by_one=one_by_one)
        self._models = [
            ModelWatch(
                *(name, self._group, client, report, self._pulse, wrong, troubles.harmful.due_s(name)),
                alone=name in troubles.harmful,
            )
            for name in server.models
        ]
        self.has_begun, self._lacked = asyncio.Event(), list[str]()

    async def watch(self, on_ready: OnReady, changed: Collection[str], *, is_first: bool) -> str:
        """Why the server must be replaced, once it must.

        Args:
            on_ready: called with the models that it does not serve, and why: once all have been looked at, or, of a
                server that was started anew, after :data:`BEGUN_S`.
            changed: models that are loaded behind the others, as their files are others.
            is_first: whether all are waited for, and none that answers is an error.

        Raises:
            ServerError: the first server serves none of its models.
        """
        end, excess = begin(self._wait_for_end()), begin(self._wait_for_excess())
        tasks: list[asyncio.Future[str]] = [end, begin(self._follow_models(on_ready, changed, is_first))]
        beside: list[asyncio.Future[None]] = []
        if self._watch_s:
            tasks += [excess, begin(self._wait_for_hang()), begin(self._wait_for_stuck())]
            beside.append(begin(vouch_for_workers(self._group)))
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if excess in done:
                self._troubles.grown.count(_SERVER)
            has_crashed = end in done and -(self._server.returncode or 0) in CRASH_SIGNALS
            blamed = self._blame() if excess in done or has_crashed else set[str]()
            for model in self._models:
                if model.has_answered and model.name not in blamed:
                    self._troubles.harmful.pop(model.name, None)
                if excess in done and not model.reason:  # what the next server needs with it is no excess
                    self._troubles.stuck.pop(model.name, None)
            return done.pop().result()
        finally:
            excess.cancel()
            for task in tasks:
                task.cancel()
            for one in beside:
                one.cancel()

    async def _follow_models(self, on_ready: OnReady, changed: Collection[str], is_first: bool) -> Never:
        # To the server they are no models at all: who asks is to hear that they are away.
        with suppress(TimeoutError):
            async with asyncio.timeout(ANSWER_S):
                await asyncio.gather(*(self._client.announce(model.name) for model in self._models))
        following = [begin(self._follow(model)) for model in self._models]
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(None if is_first else BEGUN_S):
                    await asyncio.gather(*(model.has_begun.wait() for model in self._models))
            if is_first and all(model.reason for model in self._models):  # as on a machine that is very busy
                if late := {model.name for model in self._models if model.is_late}:
                    report(f"no model answers: loaded once more: {', '.join(sorted(late))}")
                await asyncio.sleep(1.0)
                again = [model for model in self._models if not model.is_wrong]
                await asyncio.gather(*(one.begin(is_due=True) if one.name in late else one.check() for one in again))
            await self._wait_until_it_answers()  # else it has ended since, which is another's to see
            lacked = {model.name: model.reason for model in self._models if model.reason}
            if is_first and len(lacked) == len(self._models):
                raise self._server.failure(f"an answer from each of {', '.join(lacked)}", "; ".join(lacked.values()))
            known = dict.fromkeys(changed, "its files have changed: it is loaded behind the others")
            known |= dict.fromkeys(self._troubles.harmful, "the server crashed, or grew too large, as it was loaded")
            on_ready(self._server, {name: known.get(name, reason) for name, reason in lacked.items()})
            self._lacked += lacked
            self.has_begun.set()
            await asyncio.gather(*following)
            raise AssertionError("a watch has ended")
        finally:
            for one in following:
                one.cancel()

    async def _wait_until_it_answers(self) -> None:
        while True:
            with suppress(AttendantError):
                await self._client.server_name()  # late where it loads many at once
                return
            await asyncio.sleep(TICK_S)

    async def _follow(self, model: ModelWatch) -> Never:
        await model.begin(is_due=model.name in self._server.due)
        if model.name in self._lacked and not model.reason:
            report(f"{model.name} answers, after {time.monotonic() - model.away_s:.1f} s")
        if model.reason or not self._watch_s:  # it may take the server along as it is loaded: behind all others
            await self.has_begun.wait()
        if not self._watch_s:
            await asyncio.Event().wait()
        await model.watch(self._watch_s)

    def _blame(self) -> set[str]:
        # The names of the models that were being loaded, each counted; before all others were, that says nothing.
        before_s, blamed = time.monotonic() - SUSPECT_S, set[str]()
        for model in self._models if self.has_begun.is_set() else ():
            was_tried = model.loading or model.tried_s > before_s
            if model.reason and was_tried and (not model.has_answered or model.away_s < before_s):
                self._troubles.harmful.count(model.name)
                blamed.add(model.name)
                pause_s = self._troubles.harmful.due_s(model.name) - time.monotonic()
                report(f"{model.name} is not loaded for {pause_s:.0f} s: the server failed while it was being loaded")
        return blamed

    async def _wait_for_excess(self) -> str:
        await self.has_begun.wait()
        return await wait_for_excess(self._group, self._bounds, report, self._troubles.grown.due_s(_SERVER))

    async def _wait_for_stuck(self) -> str:
        while True:
            for model in self._models:
                if model.stuck and time.monotonic() > self._troubles.stuck.due_s(model.name):
                    reason = f"a worker of {model.name} died as it was loaded, for which Triton waits without end"
                    report(f"{reason}: the server is replaced in a quiet moment, or else in {STUCK_PATIENCE_S:.0f} s")
                    await wait_for_quiet(self._group, STUCK_QUIET_S, STUCK_PATIENCE_S)
                    self._troubles.stuck.count(model.name)
                    return reason
            await asyncio.sleep(TICK_S)

    async def _wait_for_end(self) -> str:
        server, crashed_s = self._server, 0.0
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

    async def _wait_for_hang(self) -> str:
        process, meter, silent_s = server_of(self._group), WorkMeter(), 0.0
        question = begin(self._client.server_name())
        while True:
            await asyncio.wait({question}, timeout=TICK_S)
            if question.done() and question.exception() is None:
                silent_s, self._pulse.answered_s = 0.0, time.monotonic()
            else:
                works = process is not None and meter.share([process], TICK_S) > AT_WORK
                # While it loads a model it may answer no question about itself, and others' requests as ever.
                loads = any(one.loading for one in self._models) and not (process is not None and process.is_stopped)
                silent_s = 0.0 if works else silent_s + TICK_S * (LOADING_PACE if loads else 1.0)
                is_gone = process is not None and not process.lives  # and its guard does not say so
                if silent_s > (GONE_S if is_gone else HANG_S):
                    question.cancel()
                    self._server.kill()
                    return f"it has neither worked nor answered for {silent_s:.1f} s"
            if question.done():
                await asyncio.sleep(TICK_S)
                question = begin(self._client.server_name())


def report(line: str) -> None:
    """Tell the operator."""
    sys.stderr.write(f"{printable(line)}\n")
    sys.stderr.flush()
