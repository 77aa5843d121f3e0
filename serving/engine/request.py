"""A request to an engine, from its check to its last token, and the sequences that are decoded for it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from attendant.errors import AttendantError, InputError
from attendant.sampling_params import SamplingParams
from serving.engine.loaded_model import LoadedModel
from serving.engine.output.detokenizer import OutputBuilder
from serving.engine.request_output import RequestOutput
from serving.engine.sampling.beam_search import BeamSearch
from serving.engine.sampling.lookup import Lookup
from serving.engine.sampling.sampler import SampledToken, Sampler
from serving.engine.sampling.token_guide import SharedGrammar
from serving.engine.sampling.token_rules import TokenRules
from serving.runtime.base import Array

Sink = Callable[[RequestOutput | AttendantError], None]
"""Takes the parts of an answer as they come; an error is the last that it gets."""


def _discard(output: RequestOutput | AttendantError) -> None:
    """The sink of a request that no engine has yet."""


@dataclass(kw_only=True, eq=False)
class Request:
    """A request that has been checked and can be decoded; what an engine knows of it stands below.

    Attributes:
        prompt: the tokens that the decoder begins with: a prompt, or the start token.
        source: what the encoder reads, input name → array with a batch of one; empty without an encoder.
        max_tokens: longest answer, in tokens, without the end token.
        options: how it is decoded.
        seed: of its random numbers.
        text: of the prompt, if it is to stand before the answer.
        text_offsets: how many characters of it stand before each token, if requested.
        input_tokens: how many tokens it has.
        guide: the form of its answers, which stays compiled as long as the request lives.
        source_texts: what an alignment's positions stand for; emitted once.
        stream: whether outputs are emitted as they come, or each answer whole.
        sink: takes the answer.
        arrived_s: when it came, by the engine's clock.
        memories: what the encoder made of the source; None until it has been run.
        scored: the prompt's tokens with their log-probabilities, as far as they are known.
        cached_tokens: of the prompt, how many the prefix cache held; None without one.
        source_length: how many positions its own source has, of those the rows are laid out for.
        sequences: of its rows; one until its prompt is done.
        search: of beams.
        unfinished: how many of its answers are not complete.
        unsent: of answers that are emitted whole, candidate → its outputs so far.
        admitted_s, first_s, last_s: when it got its rows, and its first and its latest token came.
    """

    prompt: tuple[int, ...]
    source: Mapping[str, Array] = field(default_factory=dict)
    max_tokens: int
    options: SamplingParams = field(default_factory=SamplingParams)
    seed: int = 0
    text: str = ""
    text_offsets: tuple[int, ...] = ()
    input_tokens: int
    guide: SharedGrammar | None = None
    source_texts: tuple[str, ...] = ()
    stream: bool = True
    sink: Sink = _discard
    arrived_s: float = 0.0
    memories: Mapping[str, Array] | None = field(init=False, default=None)
    scored: list[SampledToken] = field(init=False, default_factory=list)
    cached_tokens: int | None = field(init=False, default=None)
    source_length: int = field(init=False, default=0)
    sequences: list[Sequence] = field(init=False, default_factory=list)
    search: BeamSearch | None = field(init=False, default=None)
    unfinished: int = field(init=False, default=0)
    unsent: dict[int, list[RequestOutput]] = field(init=False, default_factory=dict)
    admitted_s: float = field(init=False, default=0.0)
    first_s: float | None = field(init=False, default=None)
    last_s: float = field(init=False, default=0.0)
    deadline_s: float | None = field(init=False)

    def __post_init__(self) -> None:
        self.arrive(self.sink, self.arrived_s)
        if not self.source:
            self.memories = {}
        if self.scores_prompt:
            self.scored.append(SampledToken(self.prompt[0]))
        self._cancelled = threading.Event()

    def arrive(self, sink: Sink, now_s: float) -> None:
        """Begin the request's time; by the engine's clock."""
        self.sink, self.arrived_s = sink, now_s
        limit_ms = self.options.deadline_ms
        self.deadline_s = None if limit_ms is None else now_s + limit_ms / 1e3

    def cancel(self) -> None:
        """End the request; from any thread."""
        self._cancelled.set()

    @property
    def is_cancelled(self) -> bool:
        return self._cancelled.is_set()

    @property
    def scores_prompt(self) -> bool:
        """Whether the log-probabilities of the prompt's own tokens are asked for."""
        return self.options.echo and self.options.logprobs

    @property
    def shown_tokens(self) -> tuple[int, ...]:
        """The tokens that an alignment begins with: of a source, or without one the prompt's; none of an image."""
        if not self.source:
            return self.prompt
        return tuple(self.source["source_ids"][0].tolist()) if "source_ids" in self.source else ()

    @property
    def needs_no_run(self) -> bool:
        """Whether the prompt itself is all that is asked for."""
        return self.max_tokens == 0 and not self.scores_prompt

    @property
    def rows(self) -> int:
        """How many rows of the KV cache it takes."""
        return self.options.sequences

    def is_past_deadline(self, now_s: float) -> bool:
        """Whether its time is over, by the engine's clock."""
        return self.deadline_s is not None and now_s > self.deadline_s


@dataclass(slots=True, kw_only=True, eq=False)
class Sequence:
    """One row of the KV cache.

    Attributes:
        request: that it belongs to.
        candidate: which of its answers.
        tokens: prompt and answer.
        sampler: picks the next token; a beam has none.
        builder: makes outputs of tokens.
        ends: the tokens that end it.
        row: of the KV cache.
        cached: how many of the tokens the cache holds.
        drafts: tokens guessed for the next step.
        leaves_last: whether the prompt's last token is left to a step: one shows what it attends to, or scores it.
        logits: of the latest step, of a beam, ``[V]``.
        is_over: whether its answer is complete.
    """

    request: Request
    candidate: int
    tokens: list[int]
    sampler: Sampler
    builder: OutputBuilder
    ends: frozenset[int]
    lookup: Lookup | None = None
    row: int = -1
    cached: int = 0
    drafts: list[int] = field(default_factory=list)
    leaves_last: bool = False
    logits: Array | None = None
    is_over: bool = False

    @property
    def num_pending(self) -> int:
        """How many tokens the cache does not hold yet: 1 while it is decoded one by one, more of a prompt."""
        return len(self.tokens) - self.cached

    @property
    def num_prefill(self) -> int:
        """How many of them a prefill reads."""
        return self.num_pending - (self.leaves_last and self.num_pending > 1)

    @property
    def output_length(self) -> int:
        """How many tokens the answer has."""
        return len(self.tokens) - len(self.request.prompt)

    def take(self, choice: SampledToken) -> None:
        """Add a token to the answer."""
        self.tokens.append(choice.token)
        if self.lookup is not None:
            self.lookup.add(choice.token)


def pad_tokens(sequences: list[Sequence], width: int) -> Array:
    """The tokens of each sequence that come next, int64 ``[B, width]``, filled up with the first of them."""
    tokens_BT = np.empty((len(sequences), width), dtype=np.int64)
    for row, sequence in enumerate(sequences):
        coming = sequence.tokens[sequence.cached : sequence.cached + width] + sequence.drafts
        tokens_BT[row, : len(coming)] = coming[:width]
        tokens_BT[row, len(coming) :] = coming[0]
    return tokens_BT


def require_limit(max_tokens: int | None, longest: int, why: str, least: int = 1) -> int:
    """How many tokens an answer may have.

    Args:
        max_tokens: as requested; the longest if None.
        longest: possible.
        why: what the longest comes from.
        least: possible.

    Raises:
        InputError: the limit is outside least … longest.
    """
    limit = longest if max_tokens is None else max_tokens
    if not least <= limit <= longest:
        raise InputError(
            f"max_tokens from {least} to {longest}, {why}",
            str(limit),
            "ask for fewer tokens, or leave max_tokens out",
            param="max_tokens",
        )
    return limit


def create_first_sequence(request: Request, model: LoadedModel) -> Sequence:
    """The sequence that reads a request's prompt.

    Raises:
        InputError: its guide cannot be followed.
    """
    options, mask = request.options, (request.memories or {}).get("source_mask")
    request.source_length = 0 if mask is None else int(mask.sum())
    if options.beam_width > 1:
        request.search = BeamSearch(options, rules_of(request, model), request.prompt, request.max_tokens)
    request.sequences.append(create_sequence(request, 0, list(request.prompt), model))
    request.unfinished = options.n if request.search is None else 1
    return request.sequences[0]


def create_sequence(request: Request, candidate: int, tokens: list[int], model: LoadedModel) -> Sequence:
    """A sequence of a request with tokens of its own."""
    options = request.options
    rules = rules_of(request, model)
    guide = None if options.structure is None else model.guides.create(options.structure)
    return Sequence(
        request=request,
        candidate=candidate,
        tokens=tokens,
        sampler=Sampler(options, rules, request.prompt, seed=request.seed, candidate=candidate, guide=guide),
        builder=OutputBuilder(model.tokenizer, options, candidate),
        ends=rules.end | frozenset(options.stop_token_ids),
        lookup=Lookup(tokens) if options.num_speculative_tokens else None,
        leaves_last=options.explain or (model.prefill is not None and not request.scores_prompt),
    )


def rules_of(request: Request, model: LoadedModel) -> TokenRules:
    """The rules of the checkpoint's tokens, as far as a request leaves them.

    A forced first token is the second of its sequence, as in transformers (``ForcedBOSTokenLogitsProcessor``): a
    translator's start token always stands alone before it, the prompt of a language model hardly ever.
    """
    return replace(
        model.rules,
        end=frozenset() if request.options.ignore_eos else model.rules.end,
        first=model.rules.first if len(request.prompt) == 1 else None,
    )
