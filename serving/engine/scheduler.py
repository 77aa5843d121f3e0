"""Who gets slots: in turn, as many as fit, their sources encoded together and known prefixes restored."""

from __future__ import annotations

import numpy as np

from attendant.errors import AttendantError, MachineError
from serving.engine.batch import Batch
from serving.engine.encoding import encoded, together
from serving.engine.loaded_model import LoadedModel
from serving.engine.meter import Meter
from serving.engine.prefix_cache import BLOCK
from serving.engine.request_queue import RequestQueue
from serving.engine.sequence import Group, Sequence, Ticket
from serving.engine.sequence_factory import first_sequence


class Scheduler:
    """Gives rows of the KV cache to requests, in the order of the queue."""

    def __init__(self, model: LoadedModel, batch: Batch, meter: Meter) -> None:
        self._model, self._batch, self._meter = model, batch, meter
        self._reserved: dict[Group, int] = {}

    def admit(self, queue: RequestQueue) -> list[Group]:
        """Give slots to those whose turn it is, as many as fit."""
        admitted = []
        while (ticket := queue.first()) is not None and self._has_room(ticket):
            try:
                self._encode(queue.front(self._free()))
                if not self._batch.cache.accepts(ticket.memories or {}, len(self._batch.rows)):
                    break
                admitted.append(self._seat(ticket))
            except Exception as error:  # one request's mistake must not be that of those who wait behind it
                self._meter.failed += 1
                ticket.sink(failure(error, "the admission"))
            queue.remove(ticket)
        return admitted

    def _free(self) -> int:
        self._reserved = {group: group.rows for group in self._reserved if group.unfinished}
        return self._batch.cache.count - sum(self._reserved.values())

    def _has_room(self, ticket: Ticket) -> bool:
        return ticket.request.options.sequences <= self._free()

    def _encode(self, tickets: list[Ticket]) -> None:
        if tickets[0].memories is not None:
            return None
        assert self._model.encoder is not None
        new = [ticket for ticket in tickets if ticket.memories is None and not ticket.is_cancelled]
        new = [tickets[0], *(ticket for ticket in new if ticket is not tickets[0])]
        new = new[: together([ticket.request.source for ticket in new])]
        try:
            memories = encoded(self._model.encoder, [ticket.request.source for ticket in new])
        except Exception as error:  # whatever a runtime raises; one source's mistake must not be the others'
            if len(new) > 1:
                return self._encode(new[:1])
            raise failure(error, "the encoder") from error
        for ticket, memory in zip(new, memories, strict=True):
            ticket.memories = memory
        return None

    def _seat(self, ticket: Ticket) -> Group:
        sequence = first_sequence(ticket, self._model)
        group = sequence.group
        self._batch.cache.place(len(self._batch.rows), ticket.memories or {}, len(self._batch.rows))
        ticket.memories = {}  # which can be megabytes, and stand in the slots now
        self._batch.rows.append(sequence)
        self._reserved[group] = group.rows
        self._restore(sequence)
        if sequence.pending == 1:
            self._batch.rows.promote(sequence)
        return group

    def _restore(self, sequence: Sequence) -> None:
        prompt = sequence.group.ticket.request.prompt
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
