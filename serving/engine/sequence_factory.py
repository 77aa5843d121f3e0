"""A request that gets slots → its first sequence; the others, of several candidates or beams, go on from its prompt."""

from __future__ import annotations

from dataclasses import replace

from attendant.sampling_params import SamplingParams
from serving.engine.loaded_model import LoadedModel
from serving.engine.output.writer import Writer
from serving.engine.request import Request, Sequence
from serving.engine.sampling.beam_search import BeamSearch
from serving.engine.sampling.guide import TokenGuide
from serving.engine.sampling.lookup import Lookup
from serving.engine.sampling.sampler import Sampler
from serving.engine.sampling.token_rules import TokenRules


def first_sequence(request: Request, model: LoadedModel) -> Sequence:
    """The sequence that reads a request's prompt.

    Raises:
        InputError: its guide cannot be followed.
    """
    options, mask = request.options, (request.memories or {}).get("source_mask")
    request.source_length = 0 if mask is None else int(mask.sum())
    if options.beam_width > 1:
        request.search = BeamSearch(options, rules_of(options, model), request.prompt, request.max_tokens)
    request.sequences.append(sequence_of(request, 0, list(request.prompt), model))
    request.unfinished = options.n if request.search is None else 1
    return request.sequences[0]


def sequence_of(request: Request, candidate: int, tokens: list[int], model: LoadedModel) -> Sequence:
    """A sequence of a request with tokens of its own."""
    options = request.options
    rules = rules_of(options, model)
    return Sequence(
        request=request,
        candidate=candidate,
        tokens=tokens,
        sampler=Sampler(
            options, rules, request.prompt, seed=request.seed, candidate=candidate, guide=_guide(options, model)
        ),
        writer=Writer(model.tokenizer, options, candidate),
        ends=rules.end | frozenset(options.stop_token_ids),
        lookup=Lookup(tokens) if options.num_speculative_tokens else None,
    )


def rules_of(options: SamplingParams, model: LoadedModel) -> TokenRules:
    """The rules of the checkpoint's tokens, as far as a request leaves them."""
    return replace(model.rules, end=frozenset()) if options.ignore_eos else model.rules


def _guide(options: SamplingParams, model: LoadedModel) -> TokenGuide | None:
    return None if options.structure is None else model.guides.create(options.structure)
