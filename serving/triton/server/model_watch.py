"""One model of a running server: whether its workers live, move and answer rightly, and new ones where they do not.

Only that model is loaded anew; all others go on. A worker is judged by what it does, not by how long a question waits:
a busy model is a healthy one.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from math import inf
from typing import Never

from attendant.errors import AttendantError, LateError, ServerError
from clients.canary import check_answer, engine_health
from clients.model_control import WAITING
from clients.served_model import ServedModel
from clients.triton_client import TritonClient
from serving.backoff import Backoff
from serving.triton.server.engine_trouble import trouble_of
from serving.triton.server.futures import begin
from serving.triton.server.life_signs import STILL_S, TICK_S, Absence, HangError, LifeSigns, ServerPulse
from serving.triton.server.model_folders import unfit
from serving.triton.server.model_questions import LOOK_S, ModelQuestions
from serving.triton.server.workers import Worker, server_of, workers_of
from serving.triton.server.wrong_models import WrongModels

CANARY_S = 10.0
"""Time after which a model answers its example again though all else says that it is well."""
CANARY_SHARE = 0.05
"""Of a processor, that such examples may use."""
LONGEST_PAUSE_S = 30.0
"""Between two of them all the same, while nobody else is answered."""
DESCRIBED_S = 2.0
"""Between two looks at what a model is: for another number of instances alone Triton loads none anew."""
PATIENCE_S = 5.0
"""How long a model that is loaded may be away until it answers its example behind others' requests."""
LOADING = "LOADING"
BY_OTHERS = ("unloaded", "UNLOADING", LOADING)
"""What Triton's index says of a model that somebody unloads, or loads."""
FAILURES = 2
"""Wrong answers in a row after which a model is loaded anew: one may be a machine that was busy."""
Report = Callable[[str], None]


class ModelWatch(ModelQuestions):
    """Use :meth:`begin` once, then :meth:`watch`.

    Attributes:
        name: of the model.
        has_begun: set once that is done.
        reason: why it is not served; empty if it is.
        away_s: since when it is not served, by the monotonic clock; what others do to it is no such time.
        has_answered: whether this server has served it.
        loading: whether it is being loaded.
        tried_s: when that last ended, by the monotonic clock.
        stuck: whether this server will never load it: it waits without end for a worker that died meanwhile.
        is_late: whether it was not loaded in time when that was last tried.
        is_wrong: whether it answered its example wrongly when it was last loaded.
        is_unfit: whether its files are not what Triton needs: it is loaded once they are.
    """

    def __init__(
        self,
        name: str,
        group: int,
        client: TritonClient,
        report: Report,
        pulse: ServerPulse,
        wrong: WrongModels,
        due_s: float = -inf,
        *,
        alone: bool = False,
    ) -> None:
        """Begin with the workers that there are.

        Args:
            name: of the model.
            group: the server's process group.
            client: of the server, which may load its models; its time-out is the longest that loading takes.
            report: takes a line about what happens.
            pulse: of the server.
            wrong: the models that are not to be loaded again at once.
            due_s: when it may be loaded, by the monotonic clock.
            alone: whether it is loaded beside no other such model.
        """
        super().__init__(name, client, pulse)
        self.reason, self.has_begun = "it is being loaded", asyncio.Event()
        self.loading = self.stuck = self.is_late = self.is_wrong = self.is_unfit = self._was_served = False
        self._group, self._report, self._pulse = group, report, pulse
        self._backoff, self._wrong, self._due_s, self._alone = Backoff(), wrong, due_s, alone
        self.away_s, self.tried_s, self.has_answered, self._described_s = inf, -inf, False, 0.0
        self._canary_s, self._canary_took_s = 0.0, inf
        self._failures, self._is_proved = 0, False
        self._unloaded = True  # by `attendant serve`, and not by who has the admin key

    async def begin(self, *, is_due: bool) -> None:
        """Have a server that has loaded nothing yet load the model, and :meth:`check` it.

        Args:
            is_due: whether it may be loaded now.
        """
        self.away_s = time.monotonic()
        try:
            await (self._load(waits=True) if is_due else self.check())
        except Exception as error:  # a mistake of ours: all other models are watched
            self._report(f"a look at {self.name} failed: {error!r}")
        finally:
            self.has_begun.set()

    async def check(self) -> None:
        """Let the model answer its example; :attr:`reason` says what is wrong. After a wrong answer it is unloaded."""
        self.is_wrong = self._was_served = False
        try:
            if reason := (await self._client.failed_models()).get(self.name):
                reason = "it is not loaded yet" if reason == LOADING or WAITING in reason else reason
                raise ServerError(f"the model {self.name!r}, loaded", reason, "mend it", message=reason)
            self._served = await self._client.model(self.name)
            self._wrong.note_loaded(self.name)
            self._signs = LifeSigns(self._workers_of(self._served), self._pulse)
            self._usage = await self._client.usage(self.name)
            self._failures, self._is_proved, self._canary_took_s = FAILURES - 1, False, inf
            self.reason = await self._answer_example(PATIENCE_S)
            self._usage = await self._client.usage(self.name)
            if self._signs.is_asked:
                self.reason = "it does not answer its example"
        except AttendantError as error:
            self.reason = " ".join(str(error).split())
        self._was_served = not self.reason
        self.has_answered |= self._was_served
        if self.is_wrong:
            await self._unload()

    async def watch(self, pause_s: float) -> Never:
        """Look at the model again and again, and load it anew where that is needed.

        Args:
            pause_s: between two looks.
        """
        while True:
            try:
                if self.reason and not await self._was_loaded_by_others():
                    await self._restart()
                await self._while_alive(asyncio.sleep(pause_s))
                self.reason = await self._look()
            except HangError as error:
                self.reason, self.away_s = str(error), time.monotonic()
            except AttendantError:  # the server itself, which is watched by another
                await asyncio.sleep(TICK_S)
            except Exception as error:  # a mistake of ours: all other models are watched on
                self._report(f"a look at {self.name} failed: {error!r}")
                await asyncio.sleep(CANARY_S)

    async def _look(self) -> str:
        """Why the model must be loaded anew; empty if it need not.

        Raises:
            AttendantError: the server does not say.
        """
        assert self._served is not None
        before, self._usage = self._usage, await self._while_alive(self._client.usage(self.name))
        if self._usage != before:
            self._signs.note_answer()
        is_another = any(now < was for now, was in zip(self._usage, before, strict=True))  # each load counts from zero
        if time.monotonic() - self._described_s > DESCRIBED_S:
            self._described_s = time.monotonic()
            is_another |= await self._while_alive(self._client.model(self.name)) != self._served
        if is_another:
            self._wrong.load(self.name)
            await self.check()
            return self.reason
        pause_s = 0.0 if self._signs.is_asked else min(self._canary_took_s / CANARY_SHARE, LONGEST_PAUSE_S)
        due_s = time.monotonic() - self._canary_s - pause_s
        if self._served.says_health:
            health = await self._ask(engine_health(self._client, self._served))
            trouble = "" if health is None else trouble_of(health)
            if health is None or trouble or health.loading:
                return trouble
            moves = health.busy or due_s < CANARY_S
        else:
            moves = due_s < (CANARY_S if self._usage != before else 0.0)
        return "" if moves and not self._failures else await self._answer_example()

    async def _answer_example(self, patience_s: float = inf) -> str:
        """What is wrong with the answer; empty if nothing is, it may be an accident, or there was none."""
        assert self._served is not None
        self._canary_s = time.monotonic()
        verdict, wrong = None, ""
        try:
            example = check_answer(self._client, self._served, though_busy=self._failures > 0)
            verdict = await (self._ask_engine(example, patience_s) if self._served.says_health else self._ask(example))
            self.is_wrong = verdict is not None and verdict.answered and not verdict.right
            if verdict is not None and not verdict.right:
                wrong = f"expected the right answer to its example; found {verdict.found}"
            elif verdict is not None and verdict.answered:
                self._is_proved = True
                self._wrong.forget(self.name)
        except HangError:
            raise
        except AttendantError as error:
            wrong = str(error)
        if not self._signs.is_asked:  # the quickest stood behind nobody
            self._canary_took_s = min(self._canary_took_s, time.monotonic() - self._canary_s)
        if wrong and await self._is_another():
            self._failures, self.is_wrong = 0, False
            return ""
        if wrong or verdict is not None:  # else it is asked again
            self._failures = self._failures + 1 if wrong else 0
        if self._failures < FAILURES:
            return ""
        if self.is_wrong and not self._is_proved:  # since it was loaded: to load it again would not help
            self._wrong.count(self.name)
        return wrong

    async def _reload(self) -> None:
        loading, stood_s = begin(self._client.reload(self.name)), 0.0
        absence = Absence(server_of(self._group), self.name, self._pulse)
        try:
            while not (await asyncio.wait({loading}, timeout=TICK_S))[0]:
                stopped = [one.is_stopped for one in self._find_workers()]
                stood_s += TICK_S * all(stopped) * bool(stopped)
                # For one that stood still for a while Triton may wait without end though it goes on.
                absence.look(not all(stopped) and stood_s < STILL_S)
                self.stuck = absence.is_long if stopped else absence.is_hopeless  # of a dead one it is told
        finally:
            absence.end()
            self.stuck = False
        loading.result()

    def _kill_workers(self) -> None:
        for worker in self._find_workers():
            worker.kill()

    def _find_workers(self) -> list[Worker]:
        return [worker for worker in workers_of(self._group) if worker.model == self.name and worker.lives]

    def _workers_of(self, served: ServedModel) -> list[Worker]:
        # Triton ends those of a former load one by one, once they have answered what they had to: the youngest are its.
        workers = sorted(self._find_workers(), key=lambda worker: (worker.started, worker.pid))
        return workers[-served.instances :] if served.instances else workers

    async def _is_another(self) -> bool:
        # Others may have loaded it, with an example of its own, while its former worker still answers what it had to.
        with suppress(AttendantError):
            served = await self._client.model(self.name)
            if served != self._served:
                self._served, self._signs.workers = served, self._workers_of(served)
                return True
        return False

    async def _was_loaded_by_others(self) -> bool:
        # Who has the admin key may load it, or unload it: then it is theirs to load it again.
        died, proves = self.reason, True
        if not await self._wait_for_others():
            if (served := self._served) is None or all(worker.lives for worker in self._signs.workers):
                return False
            if served.instances > 1:  # Triton ends one before it says that there are to be fewer
                await asyncio.sleep(LOOK_S)
            with suppress(AttendantError):  # of a model that is not loaded at all
                served = await self._client.model(self.name)
            living, latest = self._workers_of(served), max(worker.started for worker in self._signs.workers)
            if len(living) < max(1, served.instances):
                return False
            proves = served != self._served or all(
                one not in self._signs.workers and one.started >= latest for one in living
            )
        await self.check()
        if not (self.reason or proves or self._is_proved):  # a dead one may be of a load that failed behind the model's
            self.reason = died
        return not self.reason

    async def _wait_for_others(self) -> bool:
        absence, reported = Absence(server_of(self._group), self.name, self._pulse), False
        try:
            while not self._unloaded and (state := (await self._client.failed_models()).get(self.name)) in BY_OTHERS:
                self.away_s, self.loading = time.monotonic(), state == LOADING
                self.reason = "it was unloaded by who has the admin key"
                if not reported:
                    self._report(f"{self.name} is away: {self.reason}")
                    reported = True
                absence.look(bool(self._find_workers())) if self.loading else absence.end()
                self.stuck = absence.is_hopeless
                await asyncio.sleep(TICK_S)
        finally:
            absence.end()
            self.loading = self.stuck = False
        return reported

    async def _unload(self) -> None:
        self._unloaded = True
        with suppress(AttendantError):  # no answer is better than a wrong one
            await self._client.unload(self.name)

    async def _restart(self) -> None:
        self.away_s, reported, waits = time.monotonic(), "", not self._was_served
        while self.reason:
            if self.reason != reported:
                pause_s = self._wrong.pause_s(self.name)
                when = f" once its files change, or in {pause_s:.0f} s" if pause_s else ""
                self._report(f"{self.name} is loaded anew{when}: {self.reason}")
                reported = self.reason
            await self._pause()
            await self._load(waits)
            waits = True
        self._backoff.note_success()
        self._report(f"{self.name} answers again, after {time.monotonic() - self.away_s:.1f} s")

    async def _load(self, waits: bool) -> None:
        # One that was served until now waits for nobody.
        async with self._pulse.place(alone=self._alone) if waits else nullcontext():
            self._kill_workers()
            self.loading, self._unloaded, self.is_late = True, False, False
            self._wrong.load(self.name)
            try:
                try:
                    await self._reload()
                except LateError:
                    self.is_late = True
                    self._report(
                        f"{self.name} is not loaded within {self._client.timeout_s:g} s, and its worker is ended"
                    )
                    self._kill_workers()  # else the server unloads it once it is loaded
                except AttendantError:  # which it says again when it is asked which models failed
                    pass
                await self.check()
            finally:
                self.loading, self.tried_s = False, time.monotonic()
            if self.reason and not self.is_wrong:
                await self._unload()

    async def _pause(self) -> None:
        # After a failure, but no longer than until its files have changed, and rest; then until Triton may have them.
        self._kill_workers()
        pause_s = self._backoff.pause_after_failure()
        due_s = max(time.monotonic() + (LOOK_S if self.is_wrong else pause_s), self._due_s)
        is_unloaded, before = False, self._wrong.files_of(self.name)
        last = before
        while True:
            if before != (files := self._wrong.files_of(self.name)) == last:
                due_s = self._due_s
            last = files
            pause_s = max(due_s - time.monotonic(), self._wrong.pause_s(self.name))
            if pause_s <= 0:
                found = await asyncio.to_thread(unfit, self._wrong.repository / self.name)
                self.is_unfit = bool(found)
                if not found:
                    return
                if found != self.reason:
                    self.reason = found
                    self._report(f"{self.name} is loaded anew once its files change: {found}")
                pause_s = LOOK_S
            if not is_unloaded:
                await self._unload()  # so that nobody who asks meanwhile waits for a dead worker
                is_unloaded = True
            await asyncio.sleep(min(pause_s, LOOK_S))
