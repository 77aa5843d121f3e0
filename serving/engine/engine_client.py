"""An engine in a process of its own, kept running: one that ends or hangs is started anew.

Who had asked the one that ended gets an error at once; who asks meanwhile waits for the next for a while.
"""

import itertools
import logging
import pickle  # nosec B403  it writes only
import queue
import select
import threading
import time
from collections.abc import Callable, Hashable
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any, Generic, TypeVar

from attendant.engine_health import EngineHealth
from attendant.errors import AttendantError, BusyError, LoadingError, LostError, MachineError
from attendant.sampling_params import SamplingParams
from serving.backoff import Backoff
from serving.engine import engine_process
from serving.engine.engine_process import Ask, Cancel, Load, Output, Ready, Report
from serving.engine.meter import Meter
from serving.engine.request_output import RequestOutput
from serving.processes import (
    AT_WORK,
    HANG_S,
    LONGEST_STEP_S,
    STARVED,
    WorkMeter,
    process_of,
    receive,
    send,
    start_python,
)

TICK_S = 0.25
"""How often, at the least, ``on_tick`` is called and the process looked at."""
LONGEST_PAUSE_S = 2.0
"""Before an engine is started anew that ended before, again and again."""
FORGOTTEN_S = 10.0
"""Time without an end after which the next one counts as the first."""
HELD_S = 4.0
"""How long requests wait for an engine that is being started anew."""
AT_ONCE_BYTES = 1 << 14
"""A message so small fits where a socket can be written to: Linux says so of three quarters of its buffer free."""
UNREAD_S = 120.0
"""How long an engine that has nothing to do may leave requests unread, as while it tries guides."""
SILENT_S = 1.0
"""Time without a word of an engine after which its step is said to stall."""
Owner = TypeVar("Owner", bound=Hashable)


class EngineClient(Generic[Owner]):
    """One engine process after the other, and the requests that it has.

    :meth:`submit` may be called from one thread, :meth:`cancel` and :meth:`health` from any.

    Attributes:
        ready: what the engine said of itself.
        meter: what the present process has counted, as of its last report.
        starts: how many processes there were.
    """

    ready: Ready

    def __init__(
        self,
        load: Load,
        most_requests: int,
        on_outputs: Callable[[Owner, list[RequestOutput | AttendantError]], None],
        on_tick: Callable[[], None],
    ) -> None:
        """Start the process, and return when it can decode.

        Args:
            load: makes the model there; it must be picklable.
            most_requests: that it may have at once.
            on_outputs: takes a part of the answer to a request; what came meanwhile comes together.
            on_tick: is called now and then, by the same thread.

        Raises:
            AttendantError: the model cannot be loaded.
        """
        self._load, self._most_requests = load, most_requests
        self._on_outputs, self._on_tick = on_outputs, on_tick
        self._lock = threading.Lock()
        self._owners: dict[int, Owner] = {}
        self._numbers: dict[Owner, int] = {}
        self._count = itertools.count()
        self._outbox = queue.SimpleQueue[bytes | None]()
        self._unwritten, self._is_loading = 0, True
        self._stopping, self._stopped = threading.Event(), threading.Event()
        self._backoff = Backoff(longest_s=LONGEST_PAUSE_S, forgotten_s=FORGOTTEN_S)
        self.starts = 0
        self._failure: AttendantError | None = None
        self._failed_start = ""
        self._heard_s = self._loading_since_s = self._began_s = time.monotonic()
        self._ticked_s = self._hung_s = 0.0
        self._start()
        try:
            while self._is_loading:
                self._receive()
        except (EOFError, OSError):
            status = self._process.wait()
            raise self._failure or MachineError(
                "an engine", f"its process ended with {status}", "see the log"
            ) from None
        self._thread = threading.Thread(target=self._work, name="answer")
        self._thread.start()
        threading.Thread(target=self._watch, name="watch", daemon=True).start()

    def submit(
        self, owner: Owner, subject: Any, options: SamplingParams, *, stream: bool = True, rendered: bool = False
    ) -> None:
        """Hand a request over; its outputs go to ``on_outputs`` with the owner.

        Args:
            owner: of the request.
            subject: a text, tokens or an image.
            options: how it is decoded.
            stream: whether outputs are to come one by one.
            rendered: whether a text was made by a chat template.

        Raises:
            BusyError: the process has too many already.
        """
        ask = Ask(number=next(self._count), subject=subject, options=options, stream=stream, rendered=rendered)
        data = pickle.dumps(ask, pickle.HIGHEST_PROTOCOL)  # now: Triton takes the memory of an image back
        with self._lock:
            if len(self._owners) >= self._most_requests:
                message = f"the queue is full ({self._most_requests} requests); retry later"
                raise BusyError("fewer requests", str(self._most_requests), "retry later", message=message)
            self._owners[ask.number], self._numbers[owner] = owner, ask.number
            self._put(data)

    def cancel(self, owner: Owner) -> None:
        """End a request, whose last output is an error then."""
        with self._lock:
            if (number := self._numbers.get(owner)) is not None:
                self._put(pickle.dumps(Cancel(number=number), pickle.HIGHEST_PROTOCOL))

    def health(self, unknown: tuple[str, ...] = ()) -> EngineHealth:
        """How the engine is doing.

        Args:
            unknown: the keys of requests that this is about and it does not have.
        """
        count, silent_s = len(self._owners), time.monotonic() - self._heard_s
        waiting = min(self.meter.waiting, count)
        return EngineHealth(
            alive=self._thread.is_alive(),
            loading=self._is_loading,
            failure=self._failed_start,
            unknown=unknown,
            running=count - waiting,
            waiting=waiting,
            steps=self._steps,
            stalled_s=0.0 if self._is_loading or silent_s < SILENT_S else silent_s,
            hung_s=self._hung_s,
            age_s=time.monotonic() - self._began_s,
        )

    def stop(self) -> None:
        """Let the engine answer what it has, then end it."""
        with self._lock:
            self._stopping.set()
            if self._is_loading:  # it has no request yet
                self._record.kill()
            else:
                self._outbox.put(None)
        self._thread.join()

    def _put(self, data: bytes) -> None:
        if self._is_loading or self._unwritten or len(data) > AT_ONCE_BYTES or not self._writable.poll(0):
            self._unwritten += 1
            self._outbox.put(data)
            return
        with suppress(OSError):  # the process has ended, as the reader sees too
            self._connection.send_bytes(data)  # a thread less to wake

    def _start(self) -> None:
        self._process, self._connection = start_python(engine_process.__name__, engine_process.serve_engine.__name__)
        self._record = process_of(self._process.pid)
        self._poll = select.poll()
        self._poll.register(self._connection, select.POLLIN)
        self.meter, self._steps, self.starts = Meter(), 0, self.starts + 1
        self._writable = select.poll()
        self._writable.register(self._connection, select.POLLOUT)
        with suppress(OSError):  # it has ended, as _receive sees too
            send(self._connection, self._load)

    def _receive(self) -> list[Output]:
        """The outputs that have come; none after a while.

        Raises:
            EOFError, OSError: the process has ended.
        """
        outputs = list[Output]()
        wait_ms = TICK_S * 1000
        while self._poll.poll(wait_ms):
            try:
                message, wait_ms = receive(self._connection), 0
            except (EOFError, OSError):
                if not outputs:  # else it is met again at the next call
                    raise
                break
            self._heard_s = time.monotonic()
            if isinstance(message, Report):
                self.meter, self._steps = message.meter, message.steps
            elif isinstance(message, Ready):
                with self._lock:
                    self.ready, self._is_loading, self._failed_start = message, False, ""
                threading.Thread(target=self._write, args=(self._connection, self._outbox), daemon=True).start()
            elif isinstance(message, AttendantError):
                self._failure, self._failed_start = message, str(message)
            else:
                outputs += message
        return outputs

    def _work(self) -> None:
        while True:
            try:
                self._deliver(self._receive())
                self._tick()
            except (EOFError, OSError):
                if not self._restart():
                    break
        self._stopped.set()

    def _restart(self) -> bool:
        """Start the next process, and end what the last one had with an error; False if there is to be none."""
        status = self._process.wait()
        self._connection.close()
        lost, why = list[Owner](), str(self._failure or f"it ended with {status}")
        with self._lock:
            if not self._is_loading:  # else it had none: all wait for the next
                lost = self._take_all()
                self._outbox.put(None)
                self._outbox, self._unwritten = queue.SimpleQueue(), 0
                self._is_loading, self._loading_since_s = True, time.monotonic()
        self._end(lost, LostError("an answer", f"an engine that ended with {status}", "send the request again"))
        while not self._stopping.is_set():
            pause_s = self._backoff.pause_after_failure()
            logging.error("the engine is started anew in %.1f s: %s", pause_s, why)
            while pause_s > 0 and not self._stopping.wait(min(TICK_S, pause_s)):
                pause_s -= TICK_S
                self._tick()
            self._failure = None
            try:
                self._start()
            except OSError as error:  # no descriptor, or no memory, for a process
                why = str(error)
                continue
            with self._lock:
                if self._stopping.is_set():  # meanwhile, which ended the one before
                    self._record.kill()
            return True
        with self._lock:
            lost = self._take_all()
        self._end(lost, LostError("an answer", "an engine that has ended", "send the request again"))
        return False

    def _deliver(self, outputs: list[Output]) -> None:
        by_number = dict[int, list[RequestOutput | AttendantError]]()
        for number, output in outputs:
            by_number.setdefault(number, []).append(output)
        for number, parts in by_number.items():
            if (owner := self._owners.get(number)) is not None:
                if isinstance(parts[-1], AttendantError) or parts[-1].is_last:
                    self._forget(number)
                self._respond(owner, parts)

    def _forget(self, number: int) -> None:
        with self._lock:
            self._numbers.pop(self._owners.pop(number), None)

    def _respond(self, owner: Owner, parts: list[RequestOutput | AttendantError]) -> None:
        try:
            self._on_outputs(owner, parts)
        except Exception:  # one request's: the other answers must still leave
            logging.exception("an answer could not be sent")

    def _take_all(self) -> list[Owner]:
        """Forget all requests, and those that are not written yet; with the lock."""
        owners = list(self._owners.values())
        self._owners.clear()
        self._numbers.clear()
        with suppress(queue.Empty):
            while True:
                self._outbox.get_nowait()
                self._unwritten -= 1
        return owners

    def _end(self, owners: list[Owner], error: AttendantError) -> None:
        for owner in owners:
            self._respond(owner, [error])

    def _tick(self) -> None:
        now_s = time.monotonic()
        if now_s - self._ticked_s < TICK_S:
            return
        self._ticked_s = now_s
        if self._is_loading and self._owners and now_s - self._loading_since_s > HELD_S:
            with self._lock:
                held = self._take_all()
            self._end(held, LoadingError("an engine that works", "one that is being started anew", "retry later"))
        try:
            self._on_tick()
        except Exception:
            logging.exception("a look at the requests failed")

    def _watch(self) -> None:
        """End a process that neither says nor does anything, or takes no requests."""
        meter, heard_s, silent_s, still_s, looked_s = WorkMeter(), 0.0, 0.0, 0.0, time.monotonic()
        unread_s, steps = 0.0, 0
        while not self._stopped.wait(TICK_S):
            now_s = time.monotonic()
            passed_s = min(now_s - looked_s, 2 * TICK_S)  # a pause of this process is none of the engine's
            silent_s = 0.0 if self._heard_s != heard_s or self._has_unread() else silent_s + passed_s
            share = wanted = meter.share([self._record], passed_s)
            if self._owners and share <= AT_WORK:
                wanted += meter.waiting_share([self._record], passed_s)
            still_s = 0.0 if share > AT_WORK or wanted > STARVED else still_s + passed_s
            has_work = self.meter.active or self.meter.waiting or self._steps != steps
            unread_s = unread_s + passed_s if self._owners and not has_work and not self._is_loading else 0.0
            looked_s, heard_s, self._hung_s, steps = now_s, self._heard_s, min(silent_s, still_s), self._steps
            waits = self._is_loading and not self._record.is_stopped  # for a disk, which may be slow
            longest_s = LONGEST_STEP_S if waits else HANG_S
            is_stuck = silent_s > LONGEST_STEP_S and not self._is_loading
            if self._hung_s > longest_s or is_stuck or unread_s > UNREAD_S:
                silent, unread = f"silent for {silent_s:.1f} s", f"requests unread for {unread_s:.1f} s"
                logging.error("the engine is ended: %s, %s", silent, unread)
                self._record.kill()
                silent_s = still_s = unread_s = 0.0

    def _has_unread(self) -> bool:
        """Whether the process has said something that was not read yet."""
        unread = select.poll()  # another thread uses the other
        try:
            unread.register(self._connection, select.POLLIN)
        except (OSError, ValueError):  # it is closed just now
            return False
        return any(event & select.POLLIN for _, event in unread.poll(0))

    def _write(self, connection: Connection, outbox: "queue.SimpleQueue[bytes | None]") -> None:
        with suppress(OSError):  # the process has ended, as _receive sees too
            while (message := outbox.get()) is not None:
                connection.send_bytes(message)
                with self._lock:
                    self._unwritten -= outbox is self._outbox
            send(connection, None)
