"""``generate``, by a decoder-only Transformer: a prompt → what comes next, token by token.

One graph, ``decoder``: new tokens + cache → logits + the same cache, for the prompt and for every step. Beside it,
where prompts are to be read in another precision, ``prefill``: new tokens + cache → the same cache.

Legend: B batch, T new positions, L scored positions, A attended cache positions, M cache capacity, G key and value
heads, D head size, V vocabulary.
"""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from attendant.signature import GraphSignature, TensorSpec
from attendant.tensor_names import LOGITS, PREFILL
from models.families.decoder import Decoder, DecoderConfig
from models.task_graph import GraphBuilder, TaskGraph
from models.tasks import cache
from models.tasks.explained import explained_language_model


def graphs(model: Decoder) -> tuple[TaskGraph, ...]:
    """The one graph of a language model."""
    config = model.config
    return (
        TaskGraph(
            signature=decoder_signature(config),
            module=LanguageModelGraph(model),
            largest=cache.largest(config.max_length),
            below=cache.below(config.vocabulary_size),
        ),
    )


def explained_graphs(model: Decoder) -> tuple[TaskGraph, ...]:
    """One graph more: the decoder with its last layer's attention; see :mod:`models.tasks.explained`."""
    (plain,) = graphs(model)
    return (explained_language_model(plain, model.config.layers, model.config.heads),)


def prefill_graph(model: Decoder) -> TaskGraph:
    """The decoder without logits, and without what stands behind the last layer's keys and values."""
    (decoder,) = graphs(model)
    inputs = tuple(spec for spec in decoder.signature.inputs if spec.name != cache.SCORED)
    caches = tuple(spec for spec in decoder.signature.outputs if spec.name != LOGITS)
    return replace(
        decoder,
        signature=replace(decoder.signature, name=PREFILL, inputs=inputs, outputs=caches),
        module=PrefillGraph(model),
        largest={axis: size for axis, size in decoder.largest.items() if axis != cache.SCORED},
        below={name: size for name, size in decoder.below.items() if name != cache.SCORED},
    )


def details(config: DecoderConfig) -> dict[str, Any]:
    """The longest sequence and prompt; the tokens that end one are among the checkpoint's own details."""
    if config.rope is None or not config.rope.long_factors:
        return {"max_length": config.max_length}
    return {"max_length": config.max_length, "max_prompt_length": config.rope.original_length}


def typical_inputs(config: DecoderConfig) -> tuple[Tensor, ...]:
    """128 tokens, or as many as the model takes."""
    return (torch.zeros(1, min(128, config.max_length), dtype=torch.int64),)


def decoder_signature(config: DecoderConfig) -> GraphSignature:
    """New tokens ``[B, T]`` behind a cache ``[B, G, M, D]`` → logits ``[B, L, V]`` and the cache, in place."""
    axes = ("batch", config.kv_heads, config.max_length, config.head_size)
    return GraphSignature(
        name="decoder",
        inputs=(
            *cache.NEW_TOKENS,
            *cache.specs("self", config.layers, axes, "_in"),
        ),
        outputs=(
            TensorSpec(name=LOGITS, dtype="float32", axes=("batch", "scored", config.vocabulary_size)),
            *cache.specs("self", config.layers, axes, "_out"),
        ),
        aliases=cache.aliases("self", config.layers),
    )


class LanguageModelGraph(nn.Module):
    """The cached decoder with its caches as a flat list."""

    def __init__(self, model: Decoder) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, token_ids: Tensor, start: Tensor, self_mask: Tensor, scored: Tensor, *caches: Tensor
    ) -> list[Tensor]:
        logits, present = self.model.decode_cached(
            token_ids, start, self_mask, cache.pair_keys_and_values(caches), scored
        )
        return [logits, *cache.flat(present)]


class PrefillGraph(nn.Module):
    """As :class:`LanguageModelGraph`, for prompts of which nothing is scored."""

    def __init__(self, model: Decoder) -> None:
        super().__init__()
        self.model = model

    def forward(self, token_ids: Tensor, start: Tensor, self_mask: Tensor, *caches: Tensor) -> list[Tensor]:
        _, present = self.model.decode_cached(token_ids, start, self_mask, cache.pair_keys_and_values(caches))
        return cache.flat(present)


GRAPHS = GraphBuilder(
    task="generate",
    build=graphs,
    details=details,
    typical_inputs=typical_inputs,
    explained=explained_graphs,
    prefill=prefill_graph,
)
