"""Who gets slots: in turn, as many as fit, their sources encoded together and known prefixes restored."""

from __future__ import annotations

import numpy as np

from attendant.errors import AttendantError, MachineError
from serving.engine.batch import Batch
from serving.engine.encoding import encoded, together
from serving.engine.loaded_model import LoadedModel
from serving.engine.meter import Meter
from serving.engine.prefix_cache import BLOCK
from serving.engine.request import Request, Sequence
from serving.engine.request_queue import RequestQueue
from serving.engine.sequence_factory import first_sequence


class Scheduler:
    """Gives rows of the KV cache to requests, in the order of the queue."""

    def __init__(self, model: LoadedModel, batch: Batch, meter: Meter) -> None:
        self._model, self._batch, self._meter = model, batch, meter
        self._reserved: dict[Request, int] = {}

    def admit(self, queue: RequestQueue) -> list[Request]:
        """Give slots to those whose turn it is, as many as fit."""
        admitted = []
        while (request := queue.first()) is not None and request.options.sequences <= self._free():
            try:
                self._encode(queue.front(self._free()))
                if not self._batch.cache.accepts(request.memories or {}, len(self._batch.rows)):
                    break
                admitted.append(self._seat(request))
            except Exception as error:  # one request's mistake must not be that of those who wait behind it
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
        new = new[: together([request.source for request in new])]
        try:
            memories = encoded(self._model.encoder, [request.source for request in new])
        except Exception as error:  # whatever a runtime raises; one source's mistake must not be the others'
            if len(new) > 1:
                return self._encode(new[:1])
            raise failure(error, "the encoder") from error
        for request, memory in zip(new, memories, strict=True):
            request.memories = memory
        return None

    def _seat(self, request: Request) -> Request:
        sequence = first_sequence(request, self._model)
        request = sequence.request
        self._batch.cache.place(len(self._batch.rows), request.memories or {}, len(self._batch.rows))
        request.memories = {}  # which can be megabytes, and stand in the slots now
        self._batch.rows.append(sequence)
        self._reserved[request] = request.rows
        self._restore(sequence)
        if sequence.pending == 1:
            self._batch.rows.promote(sequence)
        return request

    def _restore(self, sequence: Sequence) -> None:
        prompt = sequence.request.prompt
        self._meter.prompt_tokens += len(prompt)
        if self._batch.prefixes is None:
            return
        blocks = self._batch.prefixes.match(prompt[:-1])  # the last token's logits are needed
        if blocks:
            self._batch.cache.restore(
                sequence.row, 0, [np.concatenate(parts, axis=1) for parts in zip(*blocks, strict=True)]
            )
            sequence.cached = BLOCK * len(blocks)
        self._meter.prefix_tokens += sequence.cached


def failure(error: Exception, graph: str) -> AttendantError:
    """What a runtime raised, as one request's error."""
    if isinstance(error, AttendantError):
        return error
    return MachineError(f"a run of {graph}", f"{type(error).__name__}: {error}", "look at the server's log")
