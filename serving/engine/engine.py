"""Continuous batching: sequences come and go between the steps of one decoder graph.

A step is *schedule → run → emit*: requests that fit take slots, a bounded part of the prompts is read, every sequence
whose prompt is done gets a token, and what that adds to its answer is given to its request.

Source: "Orca", Yu et al. 2022, section 3 (iteration-level scheduling); "Sarathi", Agrawal et al. 2023 (prompts in
chunks). The cache is one contiguous block a slot.

Legend: B rows, T new positions, V vocabulary.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from attendant.errors import AttendantError, BusyError, CancelledError, DeadlineError, InputError, MachineError
from serving.engine.batch import Batch
from serving.engine.executor import Executor
from serving.engine.loaded_model import LoadedModel
from serving.engine.meter import Meter
from serving.engine.output_processor import OutputProcessor
from serving.engine.request import Request, Sink
from serving.engine.request_output import RequestOutput
from serving.engine.request_queue import RequestQueue
from serving.engine.scheduler import Scheduler
from serving.engine.settings import EngineSettings


class Engine:
    """The decoder of one artefact with its KV cache and its queue.

    :meth:`submit` may be called from any thread; everything else from one.

    Attributes:
        meter: what happened so far.
        slots: how many sequences are decoded at once.
        cache_bytes: of all slots together.
    """

    def __init__(
        self,
        model: LoadedModel,
        settings: EngineSettings,
        meter: Meter | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Allocate the slots.

        Args:
            model: what the artefact decodes with.
            settings: how much at once.
            meter: to count with.
            clock: seconds; times and deadlines are by it.
        """
        self.meter, self._clock = meter or Meter(), clock
        self._queue = RequestQueue(settings.max_queue_size)
        self._requests: list[Request] = []
        self.slots = settings.max_num_seqs
        self._batch = Batch.allocate(model, settings)
        self._scheduler = Scheduler(model, self._batch, self.meter)
        self._output_processor = OutputProcessor(model, self._batch.rows, self.meter, clock)
        self._executor = Executor(model, settings, self._batch, self._output_processor, self.meter)
        self.cache_bytes = self._batch.cache.nbytes

    def submit(self, request: Request, sink: Sink) -> Request:
        """Queue a request.

        Args:
            request: that has been checked.
            sink: gets the answer's pieces, in the thread that steps.

        Raises:
            InputError: it needs more slots than there are.
            BusyError: too many wait already.
        """
        rows = request.options.sequences
        if rows > self.slots:
            remedy = "ask for a smaller n or fewer beams"
            raise InputError(f"at most {self.slots} sequences, the slots", f"{rows} in one request", remedy)
        submitted = replace(request, sink=sink, arrived_s=self._clock())
        try:
            self._queue.put(submitted)
        except BusyError:
            self.meter.rejected += 1
            raise
        return submitted

    def step(self) -> bool:
        """Do a step.

        Returns:
            Whether there was anything to do.
        """
        leaves = partial(_leaves, now_s=self._clock())
        for request in self._queue.leaving(leaves):
            self._say_goodbye(request)
        for request in self._requests:
            if request.unfinished and leaves(request):
                self._output_processor.drop(request)
                self._say_goodbye(request)
        self._requests = [request for request in self._requests if request.unfinished]
        admitted = self._scheduler.admit(self._queue)
        for request in admitted:
            self.meter.queue_s.add(self._clock() - request.arrived_s)
        self._requests += admitted
        worked = self._executor.step()
        self._requests = [request for request in self._requests if request.unfinished]
        self._count()
        return worked

    def stream(self, request: Request) -> Iterator[RequestOutput]:
        """Answer a request in the calling thread, with whatever else is queued.

        Raises:
            AttendantError: it has no answer.
        """
        said: deque[RequestOutput | AttendantError] = deque()
        submitted = self.submit(request, said.append)
        try:
            yield from self._until_last(said)
        finally:
            submitted.cancel()

    def fail_all(self) -> None:
        """End every request that has slots with an error, after a step that failed."""
        for request in self._requests:
            if request.unfinished:
                self._output_processor.fail(
                    request, MachineError("a step of the engine", "an error", "see the server's log")
                )
                self._output_processor.sweep(request)
        self._requests = []

    def wait(self, longest_s: float) -> None:
        """Wait until a request comes or :meth:`wake` is called."""
        self._queue.wait(longest_s)

    def wake(self) -> None:
        """End a :meth:`wait`; from any thread."""
        self._queue.wake()

    @property
    def is_idle(self) -> bool:
        """Whether nobody is served and nobody waits."""
        return not self._requests and not len(self._queue)

    def _until_last(self, said: deque[RequestOutput | AttendantError]) -> Iterator[RequestOutput]:
        while True:
            while not said:
                self.step()
            piece = said.popleft()
            if isinstance(piece, AttendantError):
                raise piece
            yield piece
            if piece.is_last:
                return

    def _say_goodbye(self, request: Request) -> None:
        if request.is_cancelled:
            self.meter.cancelled += 1
            request.sink(CancelledError("an answer", "cancelled", "send it again", message="request cancelled"))
        else:
            self.meter.late += 1
            limit, remedy = request.options.deadline_ms, "allow more time, or ask for fewer tokens"
            message = f"deadline exceeded: no whole answer within {limit} ms; {remedy}"
            error = DeadlineError(f"an answer within {limit} ms", "none", remedy, param="deadline_ms", message=message)
            request.sink(error)

    def _count(self) -> None:
        rows, cache = self._batch.rows, self._batch.cache
        self.meter.active, self.meter.waiting = len(rows), len(self._queue)
        self.meter.cached_tokens = sum(sequence.cached for sequence in rows.all)
        held = self.meter.cached_tokens / cache.capacity if cache.capacity else len(rows)
        self.meter.cache_usage = held / cache.count


def _leaves(request: Request, now_s: float) -> bool:
    return request.is_cancelled or request.is_late(now_s)
