"""What a chosen token means for its sequence: a piece of the answer, perhaps its last, and then a free slot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from attendant.errors import AttendantError
from serving.engine.loaded_model import LoadedModel
from serving.engine.meter import Meter
from serving.engine.request import Request, Sequence
from serving.engine.request_output import FinishReason, RequestOutput
from serving.engine.rows import Rows
from serving.engine.sampling.sampler import SampledToken
from serving.runtime.base import Array


class OutputProcessor:
    """Gives the pieces of answers to those who asked, and ends sequences."""

    def __init__(self, model: LoadedModel, rows: Rows, meter: Meter, clock: Callable[[], float]) -> None:
        self._tokenizer = model.tokenizer
        self._rows, self._meter, self._clock = rows, meter, clock

    def begin(self, sequence: Sequence) -> None:
        """Let an answer begin with the text of its prompt, if that is asked for."""
        request = sequence.request
        if request.text:
            request.sink(RequestOutput(text=request.text, candidate=sequence.candidate))

    def say(self, sequence: Sequence, choice: SampledToken, alignment: Array | None) -> bool:
        """Add a token to a sequence.

        Returns:
            Whether that ends it; :meth:`sweep` then frees its slot.
        """
        options = sequence.request.options
        self._time(sequence.request)
        if choice.token in sequence.ends:
            return self._end(sequence, "stop", alignment)
        sequence.take(choice)
        self._meter.tokens += 1
        piece = sequence.writer.add(choice, alignment if options.explain else None)
        if sequence.writer.is_stopped or sequence.sampler.is_complete:
            return self._end(sequence, "stop", alignment, piece)
        if sequence.answered == sequence.request.max_tokens:
            return self._end(sequence, "length", alignment, piece)
        sequence.request.sink(piece)
        return False

    def finish_beams(self, request: Request) -> None:
        """Give the best beams of a search that is over."""
        assert request.search is not None
        self._time(request)
        best = request.search.best()
        text = request.text
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
            request.sink(piece)
        self._complete(request)

    def fail(self, request: Request, error: AttendantError) -> None:
        """End a request with an error, unless it has ended; no other is touched. :meth:`sweep` then frees its slots."""
        if not request.unfinished:
            return
        self._meter.failed += 1
        request.unfinished = 0
        for sequence in request.sequences:
            self._rows.clear(sequence)
        request.sink(error)

    def drop(self, request: Request) -> None:
        """Forget a request and free its slots."""
        request.unfinished = 0
        self.sweep(request)

    def sweep(self, request: Request) -> None:
        """Free the slots of a request's sequences that have ended: all of them, if it has."""
        for sequence in list(request.sequences):
            if sequence.is_over or not request.unfinished:
                self._rows.remove(sequence)
                request.sequences.remove(sequence)

    def _end(
        self, sequence: Sequence, reason: FinishReason, alignment: Array | None, piece: RequestOutput | None = None
    ) -> bool:
        request = sequence.request
        sequence.is_over = True
        request.unfinished -= 1
        explain = request.options.explain
        rest = sequence.writer.rest(reason, alignment if explain else None)
        if piece is not None:
            texts = piece.token_texts and (piece.token_texts[0] + rest.text,)
            rest = replace(piece, text=piece.text + rest.text, finish_reason=reason, token_texts=texts)
        request.sink(replace(rest, is_last=not request.unfinished))
        if not request.unfinished:
            self._complete(request)
        return True

    def _complete(self, request: Request) -> None:
        request.unfinished = 0
        self._meter.finished += 1
        self._meter.e2e_s.add(self._clock() - request.arrived_s)

    def _time(self, request: Request) -> None:
        now = self._clock()
        if request.first_s is None:
            request.first_s = now
            self._meter.first_token_s.add(now - request.arrived_s)
        else:
            self._meter.between_tokens_s.add(now - request.last_s)
        request.last_s = now
