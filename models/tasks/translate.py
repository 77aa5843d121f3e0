"""``translate``, by an encoder-decoder Transformer: text → another text, token by token.

``encoder``: source → the cross-attention keys and values of every decoder block, once a request;
``decoder``: new target tokens + cache → logits + the same cache, for the prefill and for every step.

Legend: B batch, S source positions, T target positions, L scored positions, A attended cache positions, M cache
capacity, H heads, D head size, V vocabulary.
"""

from typing import Any, Protocol

import torch
from torch import Tensor, nn

from attendant.signature import GraphSignature, TensorSpec
from attendant.tensor_names import LOGITS
from models.families.encoder_decoder import EncoderDecoder
from models.task_graph import GraphBuilder, TaskGraph
from models.tasks import cache
from models.tasks.explained import explained_decoder


class TranslatorConfig(Protocol):
    """What the graphs must know of a configuration."""

    @property
    def vocabulary_size(self) -> int: ...

    @property
    def heads(self) -> int: ...

    @property
    def head_size(self) -> int: ...

    @property
    def decoder_blocks(self) -> int: ...

    @property
    def max_source_length(self) -> int: ...

    @property
    def max_target_length(self) -> int: ...

    @property
    def start_token(self) -> int: ...

    @property
    def end_token(self) -> int: ...


def graphs(model: EncoderDecoder) -> tuple[TaskGraph, ...]:
    """The two graphs of a translator, in the order in which a request passes them."""
    config: TranslatorConfig = model.config
    source, target = config.max_source_length, config.max_target_length
    return (
        TaskGraph(
            signature=encoder_signature(config),
            module=TranslationEncoderGraph(model),
            largest={"source": source},
            below={"source_ids": config.vocabulary_size},
        ),
        TaskGraph(
            signature=decoder_signature(config),
            module=TranslationDecoderGraph(model),
            largest={"source": source, **cache.largest(target)},
            below=cache.below(config.vocabulary_size),
        ),
    )


def explained_graphs(model: EncoderDecoder) -> tuple[TaskGraph, ...]:
    """One graph more: the decoder with its cross-attention; see :mod:`models.tasks.explained`."""
    return (explained_decoder(graphs(model)[-1]),)


def details(config: TranslatorConfig) -> dict[str, Any]:
    names = ("start_token", "end_token", "max_source_length", "max_target_length")
    return {name: getattr(config, name) for name in names}


def typical_inputs(config: TranslatorConfig) -> tuple[Tensor, ...]:
    """128 source tokens and 128 target tokens, or as many as the model takes."""
    source_ids = torch.zeros(1, min(128, config.max_source_length), dtype=torch.int64)
    target_ids = torch.zeros(1, min(128, config.max_target_length), dtype=torch.int64)
    return source_ids, torch.ones_like(source_ids, dtype=torch.bool), target_ids


def encoder_signature(config: TranslatorConfig) -> GraphSignature:
    """Source ids and mask ``[B, S]`` → keys and values ``[B, H, S, D]`` for each decoder block."""
    return GraphSignature(
        name="encoder",
        inputs=(
            TensorSpec(name="source_ids", dtype="int64", axes=("batch", "source")),
            TensorSpec(name="source_mask", dtype="bool", axes=("batch", "source")),
        ),
        outputs=_cross_specs(config),
    )


def decoder_signature(config: TranslatorConfig) -> GraphSignature:
    """New tokens ``[B, T]`` behind a cache ``[B, H, M, D]`` → logits ``[B, L, V]`` and the cache, in place."""
    layers, axes = config.decoder_blocks, ("batch", config.heads, config.max_target_length, config.head_size)
    return GraphSignature(
        name="decoder",
        inputs=(
            *cache.NEW_TOKENS,
            TensorSpec(name="source_mask", dtype="bool", axes=("batch", "source")),
            *cache.specs("self", layers, axes, "_in"),
            *_cross_specs(config),
        ),
        outputs=(
            TensorSpec(name=LOGITS, dtype="float32", axes=("batch", "scored", config.vocabulary_size)),
            *cache.specs("self", layers, axes, "_out"),
        ),
        aliases=cache.aliases("self", layers),
    )


def _cross_specs(config: TranslatorConfig) -> tuple[TensorSpec, ...]:
    return cache.specs("cross", config.decoder_blocks, ("batch", config.heads, "source", config.head_size))


class TranslationEncoderGraph(nn.Module):
    """The encoder with every decoder block's projection of its output."""

    def __init__(self, model: EncoderDecoder) -> None:
        super().__init__()
        self.model = model

    def forward(self, source_ids: Tensor, source_mask: Tensor) -> list[Tensor]:
        return cache.flat(self.model.cross_keys_and_values(self.model.encode(source_ids, source_mask)))


class TranslationDecoderGraph(nn.Module):
    """The cached decoder with its caches as a flat list."""

    def __init__(self, model: EncoderDecoder) -> None:
        super().__init__()
        self.model = model

    def forward(
        self,
        token_ids: Tensor,
        start: Tensor,
        self_mask: Tensor,
        scored: Tensor,
        source_mask: Tensor,
        *memories: Tensor,
    ) -> list[Tensor]:
        pairs = cache.pair_keys_and_values(memories)
        layers = len(pairs) // 2
        logits, caches = self.model.decode_cached(
            token_ids, start, self_mask, source_mask, pairs[:layers], pairs[layers:], scored
        )
        return [logits, *cache.flat(caches)]


GRAPHS = GraphBuilder(
    task="translate", build=graphs, details=details, typical_inputs=typical_inputs, explained=explained_graphs
)
