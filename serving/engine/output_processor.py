"""What a chosen token means for its sequence: a piece of the answer, perhaps its last, and then a free slot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from attendant.errors import AttendantError
from serving.engine.loaded_model import LoadedModel
from serving.engine.meter import Meter
from serving.engine.request import FinishReason, RequestOutput
from serving.engine.rows import Rows
from serving.engine.sampling.sampler import SampledToken
from serving.engine.sequence import Group, Sequence
from serving.runtime.base import Array


class OutputProcessor:
    """Gives the pieces of answers to those who asked, and ends sequences."""

    def __init__(self, model: LoadedModel, rows: Rows, meter: Meter, clock: Callable[[], float]) -> None:
        self._tokenizer = model.tokenizer
        self._rows, self._meter, self._clock = rows, meter, clock

    def begin(self, sequence: Sequence) -> None:
        """Let an answer begin with the text of its prompt, if that is asked for."""
        request = sequence.group.ticket.request
        if request.text:
            sequence.group.ticket.sink(RequestOutput(text=request.text, candidate=sequence.candidate))

    def say(self, sequence: Sequence, choice: SampledToken, alignment: Array | None) -> bool:
        """Add a token to a sequence.

        Returns:
            Whether that ends it; :meth:`sweep` then frees its slot.
        """
        options = sequence.group.ticket.request.options
        self._time(sequence.group)
        if choice.token in sequence.ends:
            return self._end(sequence, "stop", alignment)
        sequence.take(choice)
        self._meter.tokens += 1
        piece = sequence.writer.add(choice, alignment if options.explain else None)
        if sequence.writer.is_stopped or sequence.sampler.is_complete:
            return self._end(sequence, "stop", alignment, piece)
        if sequence.answered == sequence.group.ticket.request.max_tokens:
            return self._end(sequence, "length", alignment, piece)
        sequence.group.ticket.sink(piece)
        return False

    def finish_beams(self, group: Group) -> None:
        """Give the best beams of a search that is over."""
        assert group.search is not None
        self._time(group)
        best = group.search.best()
        text = group.ticket.request.text
        for candidate, beam in enumerate(best):
            piece = RequestOutput(
                text=text + self._tokenizer.decode(beam.tokens),
                token_ids=tuple(beam.tokens),
                candidate=candidate,
                finish_reason=beam.finish_reason,
                score=beam.score,
                is_last=candidate == len(best) - 1,
            )
            self._meter.tokens += len(beam.tokens)
            group.ticket.sink(piece)
        self._complete(group)

    def fail(self, group: Group, error: AttendantError) -> None:
        """End a request with an error, unless it has ended; no other is touched. :meth:`sweep` then frees its slots."""
        if not group.unfinished:
            return
        self._meter.failed += 1
        group.unfinished = 0
        for sequence in group.sequences:
            self._rows.clear(sequence)
        group.ticket.sink(error)

    def drop(self, group: Group) -> None:
        """Forget a request and free its slots."""
        group.unfinished = 0
        self.sweep(group)

    def sweep(self, group: Group) -> None:
        """Free the slots of a request's sequences that have ended: all of them, if it has."""
        for sequence in list(group.sequences):
            if sequence.is_over or not group.unfinished:
                self._rows.remove(sequence)
                group.sequences.remove(sequence)

    def _end(
        self, sequence: Sequence, reason: FinishReason, alignment: Array | None, piece: RequestOutput | None = None
    ) -> bool:
        group = sequence.group
        sequence.is_over = True
        group.unfinished -= 1
        explain = group.ticket.request.options.explain
        rest = sequence.writer.rest(reason, alignment if explain else None)
        if piece is not None:
            texts = piece.token_texts and (piece.token_texts[0] + rest.text,)
            rest = replace(piece, text=piece.text + rest.text, finish_reason=reason, token_texts=texts)
        group.ticket.sink(replace(rest, is_last=not group.unfinished))
        if not group.unfinished:
            self._complete(group)
        return True

    def _complete(self, group: Group) -> None:
        group.unfinished = 0
        self._meter.finished += 1
        self._meter.e2e_s.add(self._clock() - group.ticket.arrived_s)

    def _time(self, group: Group) -> None:
        now = self._clock()
        if group.first_s is None:
            group.first_s = now
            self._meter.first_token_s.add(now - group.ticket.arrived_s)
        else:
            self._meter.between_tokens_s.add(now - group.last_s)
        group.last_s = now
