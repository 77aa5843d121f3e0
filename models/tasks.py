"""What a model is for: the graphs that a task needs, and the signature of each.

Legend: B batch, S source positions, T target positions, A attended cache positions, M cache capacity, H heads,
D head size, C channels, K classes, V vocabulary.

``classify``: one graph, ``model``: pixels → logits.
``translate``: ``encoder``: source → the cross-attention keys and values of every decoder block, once a request;
``decoder``: new target tokens + cache → logits + the same cache, for the prefill and for every step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from models.checkpoints.store import Checkpoint
from models.families.seq2seq import KeysValues, Seq2SeqConfig, Seq2SeqTransformer
from models.families.vit import ViT, ViTConfig
from models.signature import GraphSignature, TensorSpec
from models.tensor_names import LOGITS, PIXELS

_PARTS = ("key", "value")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskGraph:
    """One graph to export: its signature, and a module whose flat inputs and outputs follow it."""

    signature: GraphSignature
    module: nn.Module


def graphs_of(checkpoint: Checkpoint) -> tuple[TaskGraph, ...]:
    """The graphs of a checkpoint's task, in the order in which a request passes them."""
    model = checkpoint.model
    if isinstance(model, Seq2SeqTransformer):
        return (
            TaskGraph(signature=encoder_signature(model.config), module=EncoderGraph(model)),
            TaskGraph(signature=decoder_signature(model.config), module=DecoderGraph(model)),
        )
    assert isinstance(model, ViT)
    return (TaskGraph(signature=classifier_signature(model.config), module=model),)


def serving_details(checkpoint: Checkpoint) -> dict[str, Any]:
    """What the server must know beyond the graphs: token ids, lengths, labels, preprocessing."""
    config = checkpoint.config
    if isinstance(config, Seq2SeqConfig):
        names = ("start_token", "end_token", "max_source_length", "max_target_length")
        return {**checkpoint.details, **{name: getattr(config, name) for name in names}}
    return dict(checkpoint.details)


def classifier_signature(config: ViTConfig) -> GraphSignature:
    """Pixels ``[B, C, side, side]`` → logits ``[B, K]``."""
    side = config.image_size
    return GraphSignature(
        name="model",
        inputs=(TensorSpec(name=PIXELS, dtype="float32", axes=("batch", config.channels, side, side)),),
        outputs=(TensorSpec(name=LOGITS, dtype="float32", axes=("batch", config.classes)),),
    )


def encoder_signature(config: Seq2SeqConfig) -> GraphSignature:
    """Source ids and mask ``[B, S]`` → keys and values ``[B, H, S, D]`` for each decoder block."""
    return GraphSignature(
        name="encoder",
        inputs=(
            TensorSpec(name="source_ids", dtype="int64", axes=("batch", "source")),
            TensorSpec(name="source_mask", dtype="bool", axes=("batch", "source")),
        ),
        outputs=_cross_specs(config),
    )


def decoder_signature(config: Seq2SeqConfig) -> GraphSignature:
    """New tokens ``[B, T]`` behind a cache ``[B, H, M, D]`` → logits ``[B, T, V]`` and the cache, in place."""
    cache = ("batch", config.heads, config.max_target_length, config.head_size)
    stems = [f"self_{layer:02d}_{part}" for layer in range(config.layers) for part in _PARTS]
    return GraphSignature(
        name="decoder",
        inputs=(
            TensorSpec(name="token_ids", dtype="int64", axes=("batch", "steps")),
            TensorSpec(name="start", dtype="int64", axes=("batch",)),
            TensorSpec(name="self_mask", dtype="bool", axes=("batch", 1, "steps", "attended")),
            TensorSpec(name="source_mask", dtype="bool", axes=("batch", "source")),
            *(TensorSpec(name=f"{stem}_in", dtype="float32", axes=cache) for stem in stems),
            *_cross_specs(config),
        ),
        outputs=(
            TensorSpec(name=LOGITS, dtype="float32", axes=("batch", "steps", config.vocabulary_size)),
            *(TensorSpec(name=f"{stem}_out", dtype="float32", axes=cache) for stem in stems),
        ),
        aliases={f"{stem}_out": f"{stem}_in" for stem in stems},
    )


def _cross_specs(config: Seq2SeqConfig) -> tuple[TensorSpec, ...]:
    axes = ("batch", config.heads, "source", config.head_size)
    return tuple(
        TensorSpec(name=f"cross_{layer:02d}_{part}", dtype="float32", axes=axes)
        for layer in range(config.layers)
        for part in _PARTS
    )


class EncoderGraph(nn.Module):
    """The encoder with every decoder block's projection of its output."""

    def __init__(self, model: Seq2SeqTransformer) -> None:
        super().__init__()
        self.model = model

    def forward(self, source_ids: Tensor, source_mask: Tensor) -> list[Tensor]:
        """See :func:`encoder_signature`."""
        return _flat(self.model.cross_keys_and_values(self.model.encode(source_ids, source_mask)))


class DecoderGraph(nn.Module):
    """The cached decoder with its caches as a flat list."""

    def __init__(self, model: Seq2SeqTransformer) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, token_ids: Tensor, start: Tensor, self_mask: Tensor, source_mask: Tensor, *memories: Tensor
    ) -> list[Tensor]:
        """See :func:`decoder_signature`; the memories are the caches, then the cross keys and values."""
        pairs = list(zip(memories[::2], memories[1::2], strict=True))
        layers = len(pairs) // 2
        logits, caches = self.model.decode_cached(
            token_ids, start, self_mask, source_mask, pairs[:layers], pairs[layers:]
        )
        return [logits, *_flat(caches)]


def _flat(pairs: list[KeysValues]) -> list[Tensor]:
    return [tensor for pair in pairs for tensor in pair]
