"""Whether the workers of one load of a model live and move: none is dead or stopped, and some work or answer."""

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from math import inf

from attendant.errors import ServerError
from serving.processes import AT_WORK, HANG_S, LONGEST_STEP_S, STARVED, ProcessRecord, WorkMeter
from serving.triton.server.workers import Worker, engines_of

TICK_S = 0.2
SHORT_TICK_S = 0.05
"""Of a worker that was seen stopped."""
STOPPED_S = 0.4
"""How long a process may be stopped by a signal without a break: Triton gives its requests up after 1 s."""
PROMPT_S = 1.0
"""How long ago the server may have answered for a model's silence to be its own."""
STILL_S = 1.0
"""How long a process may not work that Triton calls unhealthy."""
BIRTH_S = 4.0
"""How long a model that is being loaded may have no worker."""
STARVED_PACE = 0.1
"""How much of such a time counts in which the server waits for processors."""


class HangError(ServerError):
    """A worker that neither works nor answers, or is dead."""

    code = "worker_hangs"


LOADERS = 64
"""How many models a server can load at once: a model that is never loaded takes one for as long as it may."""
AT_ONCE = max(4, 2 * (os.cpu_count() or 2))
"""How many it is asked to load at once: more would be slower for all."""
PLACE_S = 5.0
"""How long a model that is being loaded keeps others waiting: some never are."""


class ServerPulse:
    """What all models of a server share.

    Attributes:
        answered_s: when it last answered, by the monotonic clock: where it is late, its models seem silent.
        loading: the models that it is loading, and whose workers live.
    """

    def __init__(self, answered_s: float = inf, *, one_by_one: bool = False) -> None:
        """Begin with no model.

        Args:
            answered_s: see above.
            one_by_one: whether models are loaded one after another, so that a crash shows whose it is.
        """
        self.answered_s, self.loading = answered_s, set[str]()
        self._places, self._keeps = asyncio.Semaphore(1 if one_by_one else AT_ONCE), one_by_one
        self._place_of_suspects = asyncio.Semaphore(1)

    @property
    def has_a_loader(self) -> bool:
        """Whether the server can begin to load one more."""
        return len(self.loading) < LOADERS

    @asynccontextmanager
    async def place(self, *, alone: bool = False) -> AsyncIterator[None]:
        """One of the few among those that are loaded at once, first come, first served; it is left after a while.

        Args:
            alone: whether there is but one such place: so a crash shows whose it is.
        """
        with ExitStack() as leaving:
            for places in (self._place_of_suspects, self._places) if alone else (self._places,):
                await places.acquire()
                leaving.callback(places.release)
            if not self._keeps:
                late = asyncio.get_running_loop().call_later(PLACE_S, leaving.close)
                leaving.callback(late.cancel)
            yield


class LifeSigns:
    """Those of the workers of one load; the next one begins with its own.

    Attributes:
        workers: whom it looks at.
        is_asked: whether a question to the model has no answer yet.
    """

    def __init__(self, workers: list[Worker], pulse: ServerPulse) -> None:
        self.workers, self.is_asked = workers, False
        self._pulse, self._meter, self._engine_meter = pulse, WorkMeter(), WorkMeter()
        self._silent_s, self._still_s, self._stopped_s = 0.0, 0.0, 0.0
        self._stopped = dict[int, float]()

    @property
    def tick_s(self) -> float:
        """How long to wait before the next look."""
        return SHORT_TICK_S if self._stopped else TICK_S

    @property
    def stand_still(self) -> bool:
        """Whether none has worked for a while."""
        return self._still_s >= STILL_S

    @property
    def hang(self) -> bool:
        """Whether none has worked or answered for too long."""
        return min(self._silent_s, self._still_s) > HANG_S

    @property
    def are_late(self) -> bool:
        """Whether a question has had no answer for so long that they must have answered others since."""
        return self._silent_s > LONGEST_STEP_S

    @property
    def silence(self) -> HangError:
        """The error of workers that hang."""
        message = f"its worker has neither worked nor answered for {self._silent_s:.1f} s"
        return HangError("an answer", "none", "load the model anew", message=message)

    def note_answer(self) -> None:
        """Note that they have answered somebody."""
        self._silent_s = 0.0

    def look(self, passed_s: float) -> None:
        """Look at the workers.

        Args:
            passed_s: since the last look.

        Raises:
            HangError: one is dead, or stopped for too long.
        """
        passed_s = min(passed_s, 2 * TICK_S)  # a pause of this process is none of the workers'
        dead = [worker.pid for worker in self.workers if not worker.lives]
        if dead:
            raise HangError("a living worker", "a dead one", "none", message=f"its worker {dead[0]} died")
        share = self._meter.share(self.workers, passed_s)
        works = share > AT_WORK
        # An engine works for its worker, and who waits for a processor does not stand still.
        if self.is_asked and not works:
            engines = engines_of(self.workers)
            share += self._engine_meter.share(engines, passed_s)
            works = share > AT_WORK or share + self._meter.waiting_share([*self.workers, *engines], passed_s) > STARVED
        # One that is stopped and goes on by turns is slow alone, however often it is seen while it is stopped.
        before = self._stopped
        # Both only grow; NaN, where they cannot be seen, is never what it was.
        self._stopped = {one.pid: one.switches + one.processor_s for one in self.workers if one.is_stopped}
        stands = any(before.get(pid) == used for pid, used in self._stopped.items())
        self._stopped_s = self._stopped_s + passed_s if stands else 0.0
        if self._stopped_s > STOPPED_S:
            raise HangError("a worker that runs", "a stopped one", "none", message="its worker is stopped")
        if not self.is_asked:
            self._silent_s = 0.0
        elif time.monotonic() - self._pulse.answered_s < PROMPT_S:  # else it is the server that is late
            self._silent_s += passed_s
        self._still_s = 0.0 if works else self._still_s + passed_s


class Absence:
    """How long a model that is being loaded has had no worker: the server starts one, once it gets a processor."""

    def __init__(self, server: ProcessRecord | None, name: str, pulse: ServerPulse) -> None:
        """Begin with none.

        Args:
            server: that starts the worker.
            name: of the model.
            pulse: of the server.
        """
        self._server, self._meter, self._looked_s, self._s = server, WorkMeter(), time.monotonic(), 0.0
        self._name, self._pulse = name, pulse

    @property
    def is_long(self) -> bool:
        """Whether one that the server has started is dead."""
        return self._s > BIRTH_S

    @property
    def is_hopeless(self) -> bool:
        """Whether the server will never go on, either."""
        return self._s > 2 * BIRTH_S

    def end(self) -> None:
        """Note that the model is not being loaded, or no more."""
        self._s = 0.0
        self._pulse.loading.discard(self._name)

    def look(self, lives: bool) -> None:
        """Note whether one lives now."""
        (self._pulse.loading.add if lives else self._pulse.loading.discard)(self._name)
        passed_s, self._looked_s = time.monotonic() - self._looked_s, time.monotonic()
        passed_s = min(max(passed_s, 1e-3), 2 * TICK_S)  # a pause of this process is none of the server's
        waits = self._server is not None and self._meter.waiting_share([self._server], passed_s) > STARVED
        pace = 0.0 if not self._pulse.has_a_loader else STARVED_PACE if waits else 1.0
        self._s = 0.0 if lives else self._s + passed_s * pace
