"""Tokens of one answer → pieces of its text: whole characters only, and nothing of a stop."""

from __future__ import annotations

from attendant.sampling_params import SamplingParams
from attendant.tokenizer import TextTokenizer
from serving.engine.output.detokenization import IncrementalDetokenizer
from serving.engine.output.stopping import StopText
from serving.engine.request_output import FinishReason, RequestOutput
from serving.engine.sampling.sampler import SampledToken
from serving.runtime.base import Array


class Writer:
    """The text of one answer as its tokens come."""

    def __init__(self, tokenizer: TextTokenizer, options: SamplingParams, candidate: int) -> None:
        self._text = IncrementalDetokenizer(tokenizer)
        self._stop = StopText(options.stop) if options.stop else None
        self._options, self._candidate = options, candidate
        self._count = 0

    @property
    def is_stopped(self) -> bool:
        """Whether a stop text has come."""
        return self._stop is not None and self._stop.found is not None

    def add(self, choice: SampledToken, alignment: Array | None) -> RequestOutput:
        """The piece of one more token."""
        self._count += 1
        text = self._text.add(choice.token)
        if self._stop is not None and self._count > self._options.min_tokens:
            text = self._stop.add(text)
        return RequestOutput(
            text=text,
            token_ids=(choice.token,),
            candidate=self._candidate,
            logprobs=(choice.logprob,) if self._options.logprobs else (),
            top_logprobs=(choice.top,) if self._options.top_logprobs else (),
            alignment=None if alignment is None else alignment[None],
            token_texts=() if alignment is None else (text,),
        )

    def rest(self, reason: FinishReason, alignment: Array | None) -> RequestOutput:
        """The last piece: whatever was held back."""
        text = "" if self.is_stopped else self._text.rest()
        if self._stop is not None and not self.is_stopped:
            text = self._stop.add(text) + self._stop.rest()
        nothing = None if alignment is None else alignment[None][:0]
        return RequestOutput(text=text, candidate=self._candidate, finish_reason=reason, alignment=nothing)
