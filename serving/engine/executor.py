"""The runs of one step: a bounded part of the prompts, then one token for every sequence whose prompt is done.

Legend: B rows, T new positions, V vocabulary.
"""

from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter

import numpy as np

from attendant.errors import AttendantError
from attendant.tensor_names import LOGITS
from serving.engine.batch import Batch
from serving.engine.beam_executor import BeamExecutor
from serving.engine.loaded_model import LoadedModel
from serving.engine.meter import Meter
from serving.engine.output.alignment import alignment_of
from serving.engine.output_processor import OutputProcessor
from serving.engine.request import Request, Sequence, create_sequence, pad_tokens
from serving.engine.sampling.draft_length import DraftLength
from serving.engine.sampling.earlier_answers import EarlierAnswers
from serving.engine.sampling.sampler import SampledToken, require_numbers, score_token
from serving.engine.scheduler import failure
from serving.engine.settings import EngineSettings
from serving.runtime.base import Array, Runner

DRAFTING_ROWS = 2
"""More sequences than these gain more from one run together than from guesses, each of which is a longer row."""


SCORED_VALUES = 1 << 21
"""Logits of a prompt's own tokens in a step: about 20 ms to turn into log-probabilities, as every request waits."""


_UNSCORED: Array = np.empty((0, 0), dtype=np.float32)


@dataclass(frozen=True, slots=True)
class Scored:
    """What a run returned for one row: logits ``[T, V]``, and the alignment ``[S]`` of its first token if shown.

    A graph that reads prompts alone returns no logits.
    """

    logits: Array
    alignment: Array | None = None


class Executor:
    """Runs the decoder graph."""

    def __init__(
        self,
        model: LoadedModel,
        settings: EngineSettings,
        batch: Batch,
        output_processor: OutputProcessor,
        meter: Meter,
    ) -> None:
        self._model, self._settings, self._meter = model, settings, meter
        self._rows, self._cache, self._prefixes = batch.rows, batch.cache, batch.prefixes
        self._output_processor = output_processor
        vocabulary = next(spec.axes[-1] for spec in model.decoder.signature.outputs if spec.name == LOGITS)
        self._scored_at_once = max(1, SCORED_VALUES // int(vocabulary))
        self._beams = BeamExecutor(model, batch, output_processor)
        self._draft_length, self._earlier = DraftLength(), EarlierAnswers()

    def step(self) -> bool:
        """Do a step.

        Returns:
            Whether there was anything to do.
        """
        busy = bool(len(self._rows))
        budget = self._settings.max_prefill_tokens
        while budget > 0 and (batch := self._select_prompts(budget)):
            width = min(max(sequence.num_prefill for sequence in batch), budget)
            scores_prompt = batch[0].request.scores_prompt
            if scores_prompt:
                width = min(width, self._scored_at_once)
            budget = 0 if scores_prompt else budget - width * len(batch)
            counts = [min(sequence.num_prefill, width) for sequence in batch]
            scored_BL = np.arange(width)[None] if scores_prompt else np.array(counts)[:, None] - 1
            apart = None if scores_prompt else self._model.prefill
            results = self._run(batch, width, scored_BL, apart or self._model.decoder)
            for sequence, count in zip(batch, counts, strict=True):
                sequence.cached += count  # of all, before any of them moves
            for sequence, scored in zip(batch, results, strict=True):
                self._finish_prefill(sequence, scored)
            self._sweep(batch)
        self._decode()
        return busy

    def _select_prompts(self, budget: int) -> list[Sequence]:
        reading = self._rows.all[self._rows.decoding :]
        if not reading:
            return []
        # Rows move where others end: whose turn it is says who came first.
        oldest = min(reading, key=lambda sequence: sequence.request.arrived_s)
        reading = self._rows.all[oldest.row :]
        # ONNX Runtime's own attention reads several prompts at once only where nothing of them is cached yet.
        if oldest.cached or oldest.num_pending > budget or oldest.request.scores_prompt:
            return [oldest]
        longest, batch = 0, list[Sequence]()
        for sequence in reading:
            longest = max(longest, sequence.num_pending)
            if sequence.request.scores_prompt or sequence.cached or longest * (len(batch) + 1) > budget:
                break
            batch.append(sequence)
        return batch

    def _finish_prefill(self, sequence: Sequence, scored: Scored | AttendantError) -> None:
        if isinstance(scored, AttendantError):
            self._output_processor.fail(sequence.request, scored)
            return
        if sequence.request.scores_prompt:
            scored = _score_prompt(sequence, scored)
        # One: its logits are left to the next step. What a run caches that scores a prompt, no other prompt's would.
        others_alike = self._model.prefill is None or not sequence.request.scores_prompt
        if sequence.num_pending <= 1 and others_alike and self._prefixes is not None:
            read = partial(self._cache.cached, sequence.row)
            self._prefixes.store(sequence.tokens[: sequence.cached], read)
        if not sequence.num_pending:
            self._first_tokens(sequence, scored)

    def _decode(self) -> None:
        batch = self._rows.all[: self._rows.decoding]
        if not batch:
            return
        width = 1 + self._draft(batch)
        every_BT = np.arange(width)[None].repeat(len(batch), axis=0)
        runner = self._model.decoder
        if self._model.aligning and any(sequence.request.options.explain for sequence in batch):
            runner = self._model.aligning()
        began_s = perf_counter()
        results = self._run(batch, width, every_BT, runner)
        self._draft_length.note(len(batch), width, perf_counter() - began_s)
        self._meter.steps += 1
        for sequence in batch:
            sequence.cached += 1
        for sequence, scored in zip(batch, results, strict=True):
            self._finish_decode(sequence, scored)
        for request in _requests(batch):
            logits = [sequence.logits for sequence in request.sequences if sequence.logits is not None]
            if logits and request.unfinished:
                for sequence in request.sequences:
                    sequence.logits = None
                self._beams.advance(request, logits)
        self._sweep(batch)

    def _finish_decode(self, sequence: Sequence, scored: Scored | AttendantError) -> None:
        request = sequence.request
        if not request.unfinished:
            return
        if isinstance(scored, AttendantError):
            self._output_processor.fail(request, scored)
        elif not sequence.output_length:
            self._first_tokens(sequence, scored)
        elif request.search is not None:
            sequence.logits = scored.logits[0]  # a neighbour's guesses widen the step
        else:
            self._accept_tokens(sequence, scored)

    def _first_tokens(self, sequence: Sequence, scored: Scored) -> None:
        request = sequence.request
        if request.search is not None:
            self._beams.advance(request, scored.logits[:1])
            return
        try:
            others = [
                create_sequence(request, candidate, list(sequence.tokens), self._model)
                for candidate in range(1, request.rows)
            ]
        except AttendantError as error:
            self._output_processor.fail(request, error)
            return
        self._rows.fork(sequence, others)
        request.sequences += others
        for one in (sequence, *others):
            if request.unfinished:
                self._output_processor.begin(one)
                if request.max_tokens:
                    self._accept_tokens(one, scored)

    def _accept_tokens(self, sequence: Sequence, scored: Scored) -> None:
        """Sample at each position that was scored, as long as the draft that follows it was right."""
        drafts, sequence.drafts = sequence.drafts, []
        right, over = 0, False
        try:
            while True:
                sampled = _sample_token(sequence, scored.logits[right])
                over = self._output_processor.add_token(sequence, sampled, scored.alignment)
                if over or drafts[right : right + 1] != [sampled.token]:
                    break
                sequence.cached += 1
                right += 1
        except AttendantError as error:
            self._output_processor.fail(sequence.request, error)
        self._meter.accepted += right
        if sequence.lookup is not None:
            sequence.lookup.odds.judge(len(drafts), right)
            if over:
                self._earlier.keep(sequence.tokens, sequence.output_length)

    def _draft(self, batch: list[Sequence]) -> int:
        if len(batch) > DRAFTING_ROWS or self._cache.capacity is None:
            return 0
        room = min(self._cache.capacity - len(sequence.tokens) for sequence in batch)
        drafts = list[tuple[int, float]]()
        for sequence in batch:
            options = sequence.request.options
            if sequence.lookup is not None and sequence.output_length:
                left = sequence.request.max_tokens - sequence.output_length - 1
                count = max(0, min(options.num_speculative_tokens, room, left))
                sequence.drafts = self._earlier.draft(sequence.tokens, count) or sequence.lookup.draft(count)
                drafts.append((len(sequence.drafts), sequence.lookup.odds.probability))
        most = self._draft_length.best(len(batch), drafts)
        for sequence in batch:
            sequence.drafts = sequence.drafts[:most]
            self._meter.drafted += len(sequence.drafts)
        return max(len(sequence.drafts) for sequence in batch)

    def _run(
        self, batch: list[Sequence], width: int, scored_BL: Array, runner: Runner
    ) -> list[Scored | AttendantError]:
        begin, end = batch[0].row, batch[-1].row + 1
        decoder = self._cache.decoder(begin, end, runner)
        start_B = np.array([sequence.cached for sequence in batch], dtype=np.int64)
        try:
            shown = decoder.step(pad_tokens(batch, width), start_B, scored_BL)
        except Exception as error:  # whatever a runtime raises; one row's mistake must not be the others'
            if self._cache.capacity is None:  # a state that a run updates: nobody knows whether it did
                return [failure(error, "the decoder") for _ in batch]
            if len(batch) > 1:
                return [self._run([one], width, scored_BL[at : at + 1], runner)[0] for at, one in enumerate(batch)]
            return [failure(error, "the decoder")]
        results: list[Scored | AttendantError] = []
        for row, sequence in enumerate(batch):
            alignment, length = None, sequence.request.source_length or None
            if sequence.request.options.explain:  # no guesses of its own, but a neighbour's may widen the step
                position = int(scored_BL[row, 0])
                alignment = alignment_of(shown, row, position, length, int(start_B[row]) + position)
            results.append(Scored(shown[LOGITS][row] if LOGITS in shown else _UNSCORED, alignment))
        return results

    def _sweep(self, batch: list[Sequence]) -> None:
        for request in _requests(batch):
            self._output_processor.sweep(request)
            for sequence in request.sequences:
                if sequence.num_pending == 1:
                    self._rows.promote(sequence)


def _requests(batch: list[Sequence]) -> list[Request]:
    return list(dict.fromkeys(sequence.request for sequence in batch))


def _score_prompt(sequence: Sequence, scored: Scored) -> Scored:
    """Keep what the run says of the prompt's tokens behind the run's own; returns what is left: its last logits."""
    request, known = sequence.request, sequence.request.scored
    for logits_V, token in zip(scored.logits, request.prompt[len(known) :], strict=False):
        require_numbers(float(logits_V.max()), 0)
        known.append(score_token(token, logits_V, request.options.top_logprobs))
    return replace(scored, logits=scored.logits[-1:])


def _sample_token(sequence: Sequence, logits_V: Array) -> SampledToken:
    if not sequence.sampler.is_plain:
        return sequence.sampler.sample(logits_V)
    token = int(logits_V.argmax())
    require_numbers(float(logits_V[token]), sequence.output_length)
    sequence.sampler.take(token)
    return SampledToken(token)
