"""What a sampled token means for its sequence: a part of the answer, perhaps the last, and then a free row."""

from collections.abc import Callable
from dataclasses import replace

from attendant.alignments import join_alignments
from attendant.errors import AttendantError
from attendant.no_tokenizer import NoTokenizer
from serving.engine.kv_cache import Rows
from serving.engine.loaded_model import LoadedModel
from serving.engine.meter import Meter
from serving.engine.request import Request, Sequence
from serving.engine.request_output import FinishReason, RequestOutput
from serving.engine.sampling.sampler import SampledToken
from serving.runtime.base import Array


class OutputProcessor:
    """Emits the outputs of requests, and ends sequences."""

    def __init__(self, model: LoadedModel, rows: Rows, meter: Meter, clock: Callable[[], float]) -> None:
        self._tokenizer = model.tokenizer
        self._rows, self._meter, self._clock = rows, meter, clock

    def begin(self, sequence: Sequence) -> None:
        """Let an answer begin with its prompt, if that is requested; without a token to come, it ends there."""
        request = sequence.request
        prompt = RequestOutput(text=request.text, candidate=sequence.candidate)
        if request.scores_prompt:
            prompt = sequence.builder.prompt(request.text, request.scored, request.text_offsets)
        if not request.max_tokens:
            self._end(sequence, "length", None, prompt)
        elif prompt.text or prompt.token_ids:
            self._emit(request, prompt)

    def echo(self, request: Request) -> None:
        """Answer with the prompt's text and tokens, of which nothing is to be decoded; from any thread."""
        tokens = request.prompt if request.options.echo else ()
        spelled = () if isinstance(self._tokenizer, NoTokenizer) else tokens
        for candidate in range(request.options.n):
            output = RequestOutput(
                text=request.text,
                token_ids=tokens,
                candidate=candidate,
                finish_reason="length",
                is_last=candidate == request.options.n - 1,
                token_bytes=tuple(map(self._tokenizer.token_bytes, spelled)),
                prompt_tokens=len(tokens),
                input_tokens=request.input_tokens if request.options.token_counts else None,
            )
            request.sink(output)

    def add_token(self, sequence: Sequence, choice: SampledToken, alignment: Array | None) -> bool:
        """Add a token to a sequence.

        Returns:
            Whether that ends it; :meth:`sweep` then frees its slot.
        """
        options = sequence.request.options
        self._time(sequence.request)
        if choice.token in sequence.ends:
            # lm-eval-harness takes the last of the tokens that are scored for the model's own, whatever it is.
            end = sequence.builder.end(choice) if sequence.request.scores_prompt else None
            return self._end(sequence, "stop", alignment, end)
        sequence.take(choice)
        self._meter.tokens += 1
        output = sequence.builder.add(choice, alignment if options.explain else None)
        if sequence.builder.is_stopped or sequence.sampler.is_complete:
            return self._end(sequence, "stop", alignment, output)
        if sequence.output_length == sequence.request.max_tokens:
            return self._end(sequence, "length", alignment, output)
        self._emit(sequence.request, output)
        return False

    def finish_beams(self, request: Request) -> None:
        """Give the best beams of a search that is over."""
        assert request.search is not None
        self._time(request)
        best = request.search.best()
        text = request.text
        for candidate, beam in enumerate(best):
            output = RequestOutput(
                text=text + self._tokenizer.decode(beam.tokens),
                token_ids=tuple(beam.tokens),
                candidate=candidate,
                finish_reason=beam.finish_reason,
                score=beam.score,
                is_last=candidate == len(best) - 1,
            )
            self._meter.tokens += len(beam.tokens)
            self._emit(request, output)
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
        """Abort a request and free its rows."""
        request.unfinished = 0
        self.sweep(request)

    def sweep(self, request: Request) -> None:
        """Free the slots of a request's sequences that have ended: all of them, if it has."""
        for sequence in list(request.sequences):
            if sequence.is_over or not request.unfinished:
                self._rows.remove(sequence)
                request.sequences.remove(sequence)

    def _end(
        self, sequence: Sequence, reason: FinishReason, alignment: Array | None, output: RequestOutput | None = None
    ) -> bool:
        request = sequence.request
        sequence.is_over = True
        request.unfinished -= 1
        explain = request.options.explain
        rest = sequence.builder.rest(reason, alignment if explain else None)
        if output is not None:
            texts = output.token_texts and (output.token_texts[0] + rest.text,)
            rest = replace(output, text=output.text + rest.text, finish_reason=reason, token_texts=texts)
        self._emit(request, replace(rest, is_last=not request.unfinished))
        if not request.unfinished:
            self._complete(request)
        return True

    def _emit(self, request: Request, output: RequestOutput) -> None:
        if request.options.token_counts:
            output = replace(output, input_tokens=request.input_tokens, cached_tokens=request.cached_tokens)
        if request.source_texts:
            output, request.source_texts = replace(output, source_texts=request.source_texts), ()
        if not request.stream:
            unsent = request.unsent.setdefault(output.candidate, [])
            unsent.append(output)
            if not output.finish_reason:
                return
            output = merge_outputs(request.unsent.pop(output.candidate))
        request.sink(output)

    def _complete(self, request: Request) -> None:
        request.unfinished = 0
        self._meter.finished += 1
        self._meter.e2e_s.add(self._clock() - request.arrived_s)
        if request.first_s is not None:
            self._meter.decode_s.add(request.last_s - request.first_s)

    def _time(self, request: Request) -> None:
        now = self._clock()
        if request.first_s is None:
            request.first_s = now
            self._meter.first_token_s.add(now - request.arrived_s)
            self._meter.prefill_s.add(now - request.admitted_s)
        else:
            self._meter.between_tokens_s.add(now - request.last_s)
        request.last_s = now


def merge_outputs(outputs: list[RequestOutput]) -> RequestOutput:
    """Parts of one answer, in their order, as one."""
    if len(outputs) == 1:
        return outputs[0]
    return replace(
        outputs[-1],
        text="".join(output.text for output in outputs),
        token_ids=tuple(token for output in outputs for token in output.token_ids),
        logprobs=tuple(value for output in outputs for value in output.logprobs),
        top_logprobs=tuple(top for output in outputs for top in output.top_logprobs),
        token_bytes=tuple(one for output in outputs for one in output.token_bytes),
        top_bytes=tuple(top for output in outputs for top in output.top_bytes),
        text_offsets=tuple(one for output in outputs for one in output.text_offsets),
        prompt_tokens=sum(output.prompt_tokens for output in outputs),
        alignment=join_alignments([output.alignment for output in outputs if output.alignment is not None]),
        token_texts=tuple(text for output in outputs for text in output.token_texts),
        source_texts=outputs[0].source_texts,
    )
