"""A request that gets slots → its first sequence; the others, of several candidates or beams, go on from its prompt."""

from __future__ import annotations

from dataclasses import replace

from attendant.sampling_params import SamplingParams
from serving.engine.loaded_model import LoadedModel
from serving.engine.output.writer import Writer
from serving.engine.sampling.beam_search import BeamSearch
from serving.engine.sampling.guide import TokenGuide
from serving.engine.sampling.lookup import Lookup
from serving.engine.sampling.sampler import Sampler
from serving.engine.sampling.token_rules import TokenRules
from serving.engine.sequence import Group, Sequence, Ticket


def first_sequence(ticket: Ticket, model: LoadedModel) -> Sequence:
    """The sequence that reads a request's prompt.

    Raises:
        InputError: its guide cannot be followed.
    """
    request = ticket.request
    mask = (ticket.memories or {}).get("source_mask")
    group = Group(ticket=ticket, source_length=0 if mask is None else int(mask.sum()))
    if request.options.beam_width > 1:
        group.search = BeamSearch(request.options, rules_of(request.options, model), request.prompt, request.max_tokens)
    group.sequences.append(sequence_of(group, 0, list(request.prompt), model))
    group.unfinished = request.options.n if group.search is None else 1
    return group.sequences[0]


def sequence_of(group: Group, candidate: int, tokens: list[int], model: LoadedModel) -> Sequence:
    """A sequence of a request with tokens of its own."""
    request, options = group.ticket.request, group.ticket.request.options
    rules = rules_of(options, model)
    return Sequence(
        group=group,
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
