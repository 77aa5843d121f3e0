"""Send requests at their times and note what becomes of them.

In an open loop a request's time is fixed beforehand, and does not wait for the answers to others; where so many are in
flight already, it waits to be sent, and counts from its scheduled time all the same. In a closed loop each answer sends
the next request. A request that stays silent for long is given up, and its call never cancelled (clients/calls.py); so
are all that are in flight when the run itself is aborted.

Source: G. Tene, "How NOT to measure latency", 2013 (coordinated omission).
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence

from attendant.errors import AttendantError, DeadlineError
from clients.calls import LATE_CALLS_S
from clients.load.answer_checker import AnswerChecker
from clients.load.arrivals import ClosedLoop, Times
from clients.load.in_flight import InFlightRequest, PlannedRequest
from clients.load.record import RequestOutcome, RequestRecord
from clients.load.scenario import Scenario
from clients.load.timer import Timer
from clients.load.transport import PreparedWorkload, Transport

TIMEOUT_CHECK_S = 0.05
MOST_TIMEOUTS = 20.0
"""How many times as long as the next part of an answer the whole may take."""
LEAD_S = 0.02
"""From the start of a run to its first request."""


class LoadGenerator:
    """One run.

    Attributes:
        records: of the requests that have ended.
    """

    def __init__(
        self,
        scenario: Scenario,
        transport: Transport,
        prepared: Sequence[PreparedWorkload],
        plan: Iterator[PlannedRequest],
        on_record: Callable[[RequestRecord], None] | None = None,
    ) -> None:
        """Send nothing yet.

        Args:
            scenario: that is run.
            transport: to the server.
            prepared: its workloads.
            plan: what each request is.
            on_record: is called with each request that has ended.
        """
        self.records: list[RequestRecord] = []
        self._scenario, self._transport, self._prepared = scenario, transport, prepared
        self._plan, self._on_record = plan, on_record
        self._checkers = [AnswerChecker(one) for one in prepared]
        self._in_flight: dict[InFlightRequest, asyncio.Task[None]] = {}
        self._given_up: list[asyncio.Task[None]] = []
        self._waiting: deque[float] = deque()
        self._number = self._counted = 0
        self._all_sent = self._is_aborted = False
        self._started_s = 0.0
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run(self, schedule: Times | None = None) -> None:
        """Send all requests, and wait until the last has ended.

        Args:
            schedule: seconds of each request; of a closed loop None.
        """
        self._started_s = time.monotonic() + LEAD_S
        timeouts, timer = asyncio.create_task(self._check_timeouts()), Timer()
        try:
            if schedule is None:
                await timer.until(self._started_s)
                assert isinstance(self._scenario.arrivals, ClosedLoop)
                for _ in range(self._scenario.arrivals.concurrency):
                    if self._may_send(0.0):
                        self._dispatch(0.0)
                self._finish_if_done()
            else:
                await self._send_schedule(schedule.tolist(), timer)
            await self._done
        except asyncio.CancelledError:
            self._is_aborted = True
            self._waiting.clear()
            for request, task in list(self._in_flight.items()):
                self._given_up.append(task)
                request.abort(RequestOutcome.CANCELLED)
            raise
        finally:
            timer.close()
            timeouts.cancel()
            if self._given_up:
                await asyncio.wait(self._given_up, timeout=LATE_CALLS_S)

    async def _send_schedule(self, schedule: list[float], timer: Timer) -> None:
        for scheduled_s in schedule:
            due_s = self._started_s + scheduled_s
            if due_s > time.monotonic():
                await timer.until(due_s)
            else:
                await asyncio.sleep(0)  # late, and no reason to keep the answers waiting too
            if len(self._in_flight) < self._scenario.max_concurrency:
                self._dispatch(scheduled_s)
            else:
                self._waiting.append(scheduled_s)
        self._all_sent = True
        self._finish_if_done()

    def _dispatch(self, scheduled_s: float) -> None:
        request = InFlightRequest(self._number, next(self._plan), scheduled_s, self._started_s)
        self._number += 1
        self._in_flight[request] = asyncio.create_task(self._send(request))

    async def _send(self, request: InFlightRequest) -> None:
        prepared = self._prepared[request.plan.workload]
        timers = self._start_timers(request, prepared)
        try:
            await self._transport.send(prepared.requests[request.plan.input], request)
        except DeadlineError as error:
            request.fail(RequestOutcome.DEADLINE_EXCEEDED, str(error))
        except AttendantError as error:
            request.fail(RequestOutcome.ERROR, str(error))
        except Exception as error:
            request.fail(RequestOutcome.ERROR, repr(error))
        for timer in timers:
            timer.cancel()
        if request in self._in_flight:  # else it was given up
            if request.outcome is None and (fault := self._find_fault(request)):
                request.fail(RequestOutcome.WRONG, fault)
            self._complete(request)

    def _find_fault(self, request: InFlightRequest) -> str:
        try:
            return self._checkers[request.plan.workload].check(request)
        except Exception as error:  # of whatever a server may have answered
            return f"not an answer: {error!r}"

    def _start_timers(self, request: InFlightRequest, prepared: PreparedWorkload) -> list[asyncio.TimerHandle]:
        workload, loop = prepared.workload, asyncio.get_running_loop()
        timers = []
        if workload.deadline_ms is not None:
            due_s = self._started_s + request.scheduled_s + workload.deadline_ms / 1e3
            error = f"no whole answer within {workload.deadline_ms:g} ms"
            timers.append(loop.call_at(due_s, request.abort, RequestOutcome.DEADLINE_EXCEEDED, error))
        if request.plan.cancel and workload.cancel is not None:
            request.cancel_after = workload.cancel.after_tokens
            if workload.cancel.after_ms is not None:
                timers.append(loop.call_later(workload.cancel.after_ms / 1e3, request.abort, RequestOutcome.CANCELLED))
        return timers

    def _complete(self, request: InFlightRequest) -> None:
        prepared = self._prepared[request.plan.workload]
        record = request.to_record(prepared.workload.name, prepared.inputs[request.plan.input])
        del self._in_flight[request]
        if self._is_aborted:
            return
        self.records.append(record)
        if isinstance(self._scenario.arrivals, ClosedLoop):
            if self._may_send(record.ended_s):
                self._dispatch(record.ended_s)
        elif self._waiting:
            self._dispatch(self._waiting.popleft())
        self._finish_if_done()
        if self._on_record is not None:
            self._on_record(record)

    def _may_send(self, now_s: float) -> bool:
        scenario = self._scenario
        measured_s = now_s - scenario.warmup_s
        in_time = scenario.duration_s is None or measured_s < scenario.duration_s
        if measured_s < 0 or not in_time or scenario.requests is None:
            return in_time
        self._counted += 1
        return self._counted <= scenario.requests

    def _finish_if_done(self) -> None:
        is_sent = self._all_sent or isinstance(self._scenario.arrivals, ClosedLoop)
        if is_sent and not self._in_flight and not self._waiting and not self._done.done():
            self._done.set_result(None)

    async def _check_timeouts(self) -> None:
        timeout_s = self._scenario.target.timeout_s
        while True:
            await asyncio.sleep(TIMEOUT_CHECK_S)
            now_s = time.monotonic()
            for request in list(self._in_flight):
                if now_s - request.last_s > timeout_s:
                    error = f"expected a response within {timeout_s:g} s; found none"
                elif now_s - self._started_s - max(request.scheduled_s, request.sent_s) > MOST_TIMEOUTS * timeout_s:
                    error = f"expected a whole answer within {MOST_TIMEOUTS * timeout_s:g} s; found one that goes on"
                else:
                    continue
                request.abort(RequestOutcome.ERROR, error)
                self._given_up.append(self._in_flight[request])
                self._complete(request)
