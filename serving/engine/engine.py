"""Continuous batching: sequences come and go between the steps of one decoder graph.

A step is *schedule → run → emit*: requests that fit get rows of the KV cache, a bounded part of the prompts is
prefilled, every sequence whose prefill is done gets a token, and what that adds to its answer is emitted.

Source: "Orca", Yu et al. 2022, section 3 (iteration-level scheduling); "Sarathi", Agrawal et al. 2023 (chunked
prefill). The cache is one contiguous block a row.

Legend: B rows, T new positions, V vocabulary.
"""

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
from serving.engine.scheduler import RequestQueue, Scheduler
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
        """Queue a request, or answer it at once where there is nothing to decode.

        Args:
            request: that has been checked, and was not submitted before.
            sink: gets its outputs, in the thread that steps, or in this one what is answered at once.

        Raises:
            InputError: it needs more slots than there are.
            BusyError: too many wait already.
        """
        rows = request.options.sequences
        if rows > self.slots:
            remedy = "ask for a smaller n or fewer beams"
            raise InputError(f"at most {self.slots} sequences, the slots", f"{rows} in one request", remedy)
        request.arrive(sink, self._clock())
        if request.needs_no_run:
            self._output_processor.echo(request)
            return request
        try:
            self._queue.put(request)
        except BusyError:
            self.meter.rejected += 1
            raise
        return request

    def step(self) -> bool:
        """Do a step.

        Returns:
            Whether there was anything to do.
        """
        is_over = partial(_is_over, now_s=self._clock())
        for request in self._queue.remove_if(is_over):
            self._abort(request)
        for request in self._requests:
            if request.unfinished and is_over(request):
                self._output_processor.drop(request)
                self._abort(request)
        self._requests = [request for request in self._requests if request.unfinished]
        admitted = self._scheduler.admit(self._queue)
        for request in admitted:
            request.admitted_s = self._clock()
            self.meter.queue_s.add(request.admitted_s - request.arrived_s)
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
        outputs: deque[RequestOutput | AttendantError] = deque()
        submitted = self.submit(replace(request), outputs.append)
        try:
            while True:
                while not outputs:
                    self.step()
                output = outputs.popleft()
                if isinstance(output, AttendantError):
                    raise output
                yield output
                if output.is_last:
                    return
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
    def num_requests(self) -> tuple[int, int]:
        """How many requests run, and how many wait; from any thread."""
        return len(self._requests), len(self._queue)

    @property
    def is_idle(self) -> bool:
        """Whether no request runs and none waits."""
        return self.num_requests == (0, 0)

    def _abort(self, request: Request) -> None:
        if request.is_cancelled:
            self.meter.cancelled += 1
            request.sink(CancelledError("an answer", "cancelled", "send it again", message="request cancelled"))
        else:
            self.meter.deadline_exceeded += 1
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


def _is_over(request: Request, now_s: float) -> bool:
    return request.is_cancelled or request.is_past_deadline(now_s)
