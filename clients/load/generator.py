"""Send requests at their times and note what becomes of them.

In an open loop a request's time is fixed beforehand, and does not wait for the answers to others; where so many are in
flight already, it waits to be sent, and counts from its intended time all the same. In a closed loop each answer sends
the next request. A request that gives no sign for long is given up, never cancelled (clients/calls.py); so are all that
are under way when the run itself is broken off.

Source: G. Tene, "How NOT to measure latency", 2013 (coordinated omission).
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence

from attendant.errors import AttendantError, DeadlineError
from clients.calls import LATE_CALLS_S
from clients.load.arrivals import ClosedLoop, Times
from clients.load.in_flight import Choice, InFlightRequest
from clients.load.record import Outcome, RequestRecord
from clients.load.scenario import Scenario
from clients.load.timer import Timer
from clients.load.transport import Prepared, Transport
from clients.load.verify import Judge

LOOK_S = 0.05
"""How often requests are looked for that have long been silent."""
LEAD_S = 0.02
"""From the drawing of breath to the first request."""


class Generator:
    """One run.

    Attributes:
        records: of the requests that have ended.
    """

    def __init__(
        self,
        scenario: Scenario,
        transport: Transport,
        prepared: Sequence[Prepared],
        chosen: Iterator[Choice],
        on_record: Callable[[RequestRecord], None] | None = None,
    ) -> None:
        """Take what is needed; nothing is sent yet.

        Args:
            scenario: that is run.
            transport: to the server.
            prepared: its workloads.
            chosen: what each request is.
            on_record: is told of each request that has ended.
        """
        self.records: list[RequestRecord] = []
        self._scenario, self._transport, self._prepared = scenario, transport, prepared
        self._chosen, self._on_record = chosen, on_record
        self._judges = [Judge(one) for one in prepared]
        self._flights: dict[InFlightRequest, asyncio.Task[None]] = {}
        self._given_up: list[asyncio.Task[None]] = []
        self._waiting: deque[float] = deque()
        self._number = self._counted = 0
        self._all_sent = self._is_broken_off = False
        self._began_s = 0.0
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run(self, intended: Times | None = None) -> None:
        """Send all requests, and wait until the last has ended.

        Args:
            intended: seconds of each request; of a closed loop None.
        """
        self._began_s = time.monotonic() + LEAD_S
        looking = asyncio.create_task(self._look_after())
        alarm = Timer()
        try:
            if intended is None:
                await alarm.until(self._began_s)
                self._send_first()
            else:
                await self._send_all(intended.tolist(), alarm)
            await self._over
        except asyncio.CancelledError:
            self._break_off()
            raise
        finally:
            alarm.close()
            looking.cancel()
            if self._given_up:
                await asyncio.wait(self._given_up, timeout=LATE_CALLS_S)

    def _break_off(self) -> None:
        self._is_broken_off = True
        self._waiting.clear()
        for flight, task in list(self._flights.items()):
            self._given_up.append(task)
            flight.leave(Outcome.CANCELLED)

    def _send_first(self) -> None:
        assert isinstance(self._scenario.arrivals, ClosedLoop)
        for _ in range(self._scenario.arrivals.concurrency):
            if self._may_follow(0.0):
                self._launch(0.0)
        self._end_if_over()

    async def _send_all(self, intended: list[float], alarm: Timer) -> None:
        for intended_s in intended:
            due_s = self._began_s + intended_s
            if due_s > time.monotonic():
                await alarm.until(due_s)
            else:
                await asyncio.sleep(0)  # late, and no reason to keep the answers waiting too
            if len(self._flights) < self._scenario.most_in_flight:
                self._launch(intended_s)
            else:
                self._waiting.append(intended_s)
        self._all_sent = True
        self._end_if_over()

    def _launch(self, intended_s: float) -> None:
        choice = next(self._chosen)
        flight = InFlightRequest(self._number, choice, intended_s, self._began_s)
        self._number += 1
        self._flights[flight] = asyncio.create_task(self._fly(flight))

    async def _fly(self, flight: InFlightRequest) -> None:
        prepared = self._prepared[flight.choice.workload]
        timers = self._timers(flight, prepared)
        try:
            await self._transport.ask(prepared.requests[flight.choice.question], flight)
        except DeadlineError as error:
            self._fail(flight, Outcome.LATE, str(error))
        except AttendantError as error:
            self._fail(flight, Outcome.ERROR, str(error))
        except Exception as error:
            self._fail(flight, Outcome.ERROR, repr(error))
        for timer in timers:
            timer.cancel()
        if flight in self._flights:  # else it was given up
            self._judge(flight, prepared)
            self._land(flight)

    def _timers(self, flight: InFlightRequest, prepared: Prepared) -> list[asyncio.TimerHandle]:
        workload, loop = prepared.workload, asyncio.get_running_loop()
        timers = []
        if workload.deadline_ms is not None:
            due_s = self._began_s + flight.intended_s + workload.deadline_ms / 1e3
            timers.append(loop.call_at(due_s, flight.leave, Outcome.LATE, f"after {workload.deadline_ms:g} ms"))
        if flight.choice.cancelled and workload.cancel is not None:
            flight.cancel_after = workload.cancel.after_tokens
            if workload.cancel.after_ms is not None:
                timers.append(loop.call_later(workload.cancel.after_ms / 1e3, flight.leave, Outcome.CANCELLED))
        return timers

    def _fail(self, flight: InFlightRequest, outcome: Outcome, error: str) -> None:
        if flight.outcome is None:
            flight.outcome, flight.error = outcome, " ".join(error.split())

    def _judge(self, flight: InFlightRequest, prepared: Prepared) -> None:
        if flight.outcome is not None:
            return
        fault = self._judges[flight.choice.workload].fault(flight)
        if fault:
            flight.outcome, flight.error = Outcome.WRONG, fault

    def _land(self, flight: InFlightRequest) -> None:
        prepared = self._prepared[flight.choice.workload]
        question = prepared.questions[flight.choice.question]
        record = flight.record(prepared.workload.name, question.input_tokens, question.images)
        del self._flights[flight]
        self.records.append(record)
        if self._on_record is not None:
            self._on_record(record)
        self._follow(record.ended_s)

    def _follow(self, ended_s: float) -> None:
        if self._is_broken_off:
            return
        if isinstance(self._scenario.arrivals, ClosedLoop):
            if self._may_follow(ended_s):
                self._launch(ended_s)
        elif self._waiting:
            self._launch(self._waiting.popleft())
        self._end_if_over()

    def _may_follow(self, now_s: float) -> bool:
        scenario = self._scenario
        behind_s = now_s - scenario.warmup_s
        in_time = scenario.duration_s is None or behind_s < scenario.duration_s
        if behind_s < 0 or not in_time or scenario.requests is None:
            return in_time
        self._counted += 1
        return self._counted <= scenario.requests

    def _end_if_over(self) -> None:
        is_sent = self._all_sent or isinstance(self._scenario.arrivals, ClosedLoop)
        if is_sent and not self._flights and not self._waiting and not self._over.done():
            self._over.set_result(None)

    async def _look_after(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            silent_s = time.monotonic() - self._scenario.target.timeout_s
            for flight in [flight for flight in self._flights if flight.last_s < silent_s]:
                self._give_up(flight)

    def _give_up(self, flight: InFlightRequest) -> None:
        flight.leave(Outcome.ERROR, f"expected a response within {self._scenario.target.timeout_s:g} s; found none")
        self._given_up.append(self._flights[flight])
        self._land(flight)
