"""Which requests get rows: in turn, as many as fit, their sources encoded together and known prefixes restored."""

import threading
from collections import deque
from collections.abc import Callable, Mapping

import numpy as np

from attendant.errors import AttendantError, BusyError, MachineError
from serving.engine.batch import Batch
from serving.engine.loaded_model import LoadedModel
from serving.engine.meter import Meter
from serving.engine.prefix_cache import BLOCK
from serving.engine.request import Request, create_first_sequence
from serving.runtime.base import Array, Runner


class RequestQueue:
    """Requests that wait for rows, first come, first served within a priority; safe to use from several threads."""

    def __init__(self, max_size: int) -> None:
        """Begin empty.

        Args:
            max_size: requests that may wait; one more is refused.
        """
        self._max_size = max_size
        self._queues: tuple[deque[Request], deque[Request]] = (deque(), deque())
        self._changed = threading.Condition()

    def __len__(self) -> int:
        return sum(map(len, self._queues))

    def put(self, request: Request) -> None:
        """Add a request at the end of its priority's queue.

        Raises:
            BusyError: the queue is full.
        """
        with self._changed:
            if len(self) >= self._max_size:
                message = f"queue full: {len(self)} requests waiting; retry later"
                raise BusyError(f"fewer than {self._max_size} requests", str(len(self)), "retry later", message=message)
            self._queues[request.options.priority].append(request)
            self._changed.notify()

    def first(self) -> Request | None:
        """The request whose turn it is, if one waits."""
        with self._changed:
            return next((queue[0] for queue in self._queues if queue), None)

    def front(self, count: int) -> list[Request]:
        """The first so many, in the order of their turns."""
        with self._changed:
            return [request for queue in self._queues for request in queue][:count]

    def remove(self, request: Request) -> None:
        with self._changed:
            self._queues[request.options.priority].remove(request)

    def remove_if(self, matches: Callable[[Request], bool]) -> list[Request]:
        """Take out every request that matches, and return them."""
        with self._changed:
            removed = [request for queue in self._queues for request in queue if matches(request)]
            for request in removed:
                self._queues[request.options.priority].remove(request)
            return removed

    def wait(self, longest_s: float) -> None:
        """Wait until a request comes, or :meth:`wake` is called."""
        with self._changed:
            if not len(self):
                self._changed.wait(longest_s)

    def wake(self) -> None:
        """End a :meth:`wait`."""
        with self._changed:
            self._changed.notify_all()


_VARYING = "source"


def encode_sources(encoder: Runner, sources: list[Mapping[str, Array]]) -> list[dict[str, Array]]:
    """What an encoder graph returns for each source, and the source's own mask.

    Args:
        encoder: the graph.
        sources: input name → array with a batch of one; texts may differ in length, images must not.

    Returns:
        For each source name → array without the batch axis, as long as the source itself.
    """
    axes = {spec.name: spec.axes for spec in (*encoder.signature.inputs, *encoder.signature.outputs)}
    feeds = {spec.name: _stack([source[spec.name] for source in sources]) for spec in encoder.signature.inputs}
    known = {**feeds, **{name: buffer.numpy() for name, buffer in encoder.run(feeds).items()}}
    lengths = [_length(source, axes) for source in sources]
    return [
        {name: _slice_row(array, axes[name], row, length) for name, array in known.items()}
        for row, length in enumerate(lengths)
    ]


def count_batchable(sources: list[Mapping[str, Array]]) -> int:
    """How many of the sources, from the first on, one run can take."""
    shapes = [{name: array.shape for name, array in source.items() if array.ndim > 2} for source in sources]
    return next((count for count, shape in enumerate(shapes) if shape != shapes[0]), len(shapes))


def _stack(arrays: list[Array]) -> Array:
    longest = max(array.shape[1] for array in arrays)
    first = arrays[0]
    if all(array.shape[1] == longest for array in arrays):
        return np.concatenate(arrays)
    rows: Array = np.zeros((len(arrays), longest, *first.shape[2:]), dtype=first.dtype)
    for row, array in enumerate(arrays):
        rows[row, : array.shape[1]] = array[0]
    return rows


def _length(source: Mapping[str, Array], axes: Mapping[str, tuple[int | str, ...]]) -> int | None:
    for name, array in source.items():
        if _VARYING in axes[name]:
            return int(array.shape[axes[name].index(_VARYING)])
    return None


def _slice_row(array: Array, axes: tuple[int | str, ...], row: int, length: int | None) -> Array:
    part: Array = array[row]
    if length is not None and _VARYING in axes:
        part = part[(slice(None),) * (axes.index(_VARYING) - 1) + (slice(length),)]
    return part


class Scheduler:
    """Gives rows of the KV cache to requests, in the order of the queue."""

    def __init__(self, model: LoadedModel, batch: Batch, meter: Meter) -> None:
        self._model, self._batch, self._meter = model, batch, meter
        self._reserved: dict[Request, int] = {}

    def admit(self, queue: RequestQueue) -> list[Request]:
        """Give rows to the requests whose turn it is, as many as fit."""
        admitted = []
        # What is free comes first, as it lets go of what has ended.
        while (free := self._free()) and (request := queue.first()) is not None and request.options.sequences <= free:
            try:
                self._encode(queue.front(free))
                if not self._batch.cache.accepts(request.memories or {}, len(self._batch.rows)):
                    break
                admitted.append(self._place(request))
            except Exception as error:  # one request's mistake must not be that of those that wait
                self._meter.failed += 1
                request.sink(failure(error, "the admission"))
            queue.remove(request)
        return admitted

    def _free(self) -> int:
        self._reserved = {request: request.rows for request in self._reserved if request.unfinished}
        return self._batch.cache.count - sum(self._reserved.values())

    def _encode(self, requests: list[Request]) -> None:
        if requests[0].memories is not None:
            return None
        assert self._model.encoder is not None
        new = [request for request in requests if request.memories is None and not request.is_cancelled]
        new = [requests[0], *(request for request in new if request is not requests[0])]
        new = new[: count_batchable([request.source for request in new])]
        try:
            memories = encode_sources(self._model.encoder, [request.source for request in new])
        except Exception as error:  # whatever a runtime raises; one source's mistake must not be the others'
            if len(new) > 1:
                return self._encode(new[:1])
            raise failure(error, "the encoder") from error
        for request, memory in zip(new, memories, strict=True):
            request.memories = memory
        return None

    def _place(self, request: Request) -> Request:
        sequence = create_first_sequence(request, self._model)
        request = sequence.request
        self._batch.cache.place(len(self._batch.rows), request.memories or {}, len(self._batch.rows))
        request.memories = {}  # which can be megabytes, and stand in the row now
        self._batch.rows.append(sequence)
        self._reserved[request] = request.rows
        self._meter.prompt_tokens += len(request.prompt)
        if (prefixes := self._batch.prefixes) is not None:
            # The last token's logits are needed, and those of every position where the prompt is scored.
            blocks = [] if request.scores_prompt else prefixes.match(request.prompt[:-1])
            if blocks:
                joined = [np.concatenate(parts, axis=1) for parts in zip(*blocks, strict=True)]
                self._batch.cache.restore(sequence.row, 0, joined)
                sequence.cached = BLOCK * len(blocks)
            request.cached_tokens = sequence.cached
            self._meter.prefix_tokens += sequence.cached
        if sequence.num_pending == 1:
            self._batch.rows.promote(sequence)
        return request


def failure(error: Exception, graph: str) -> AttendantError:
    """What a runtime raised, as one request's error."""
    if isinstance(error, AttendantError):
        return error
    return MachineError(f"a run of {graph}", f"{type(error).__name__}: {error}", "look at the server's log")
