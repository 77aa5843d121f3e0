"""``caption``, by a Transformer: pixels → a text, token by token.

``encoder``: pixels → the cross-attention keys and values of every decoder block, once a request;
``decoder``: new target tokens + cache → logits + the same cache, for the prefill and for every step. An image has no
padding, so that there is no mask of the source.

Legend: B batch, S tokens of the image, T target positions, L scored positions, A attended cache positions, M cache
capacity, H heads, D head size, V vocabulary.
"""

from typing import Any

import torch
from torch import Tensor, nn

from attendant.signature import GraphSignature, TensorSpec
from attendant.tensor_names import LOGITS, PIXELS
from models.families.vision_seq2seq import VisionSeq2Seq, VisionSeq2SeqConfig
from models.task_graph import GraphBuilder, TaskGraph
from models.tasks import cache
from models.tasks.explained import explained_decoder


def graphs(model: VisionSeq2Seq) -> tuple[TaskGraph, ...]:
    """The two graphs of a captioner, in the order in which a request passes them."""
    config = model.config
    target = config.max_target_length
    return (
        TaskGraph(signature=encoder_signature(config), module=CaptionEncoderGraph(model)),
        TaskGraph(
            signature=decoder_signature(config),
            module=CaptionDecoderGraph(model),
            largest=cache.largest(target),
            below=cache.below(config.vocabulary_size),
        ),
    )


def explained_graphs(model: VisionSeq2Seq) -> tuple[TaskGraph, ...]:
    """One graph more: the decoder with its cross-attention; see :mod:`models.tasks.explained`."""
    return (explained_decoder(graphs(model)[-1]),)


def details(config: Any) -> dict[str, Any]:
    """Token ids and the longest target; preprocessing is among the checkpoint's own details."""
    return {name: getattr(config, name) for name in ("start_token", "end_token", "max_target_length")}


def typical_inputs(config: Any) -> tuple[Tensor, ...]:
    """One image and 128 target tokens, or as many as the model takes."""
    return torch.zeros(1, *config.pixel_shape), torch.zeros(1, min(128, config.max_target_length), dtype=torch.int64)


def encoder_signature(config: VisionSeq2SeqConfig) -> GraphSignature:
    """Pixels ``[B, *pixel shape]`` → keys and values ``[B, H, S, D]`` for each decoder block."""
    return GraphSignature(
        name="encoder",
        inputs=(TensorSpec(name=PIXELS, dtype="float32", axes=("batch", *config.pixel_shape)),),
        outputs=_cross_specs(config),
    )


def decoder_signature(config: VisionSeq2SeqConfig) -> GraphSignature:
    """New tokens ``[B, T]`` behind a cache ``[B, H, M, D]`` → logits ``[B, L, V]`` and the cache, in place."""
    layers, axes = config.decoder_blocks, ("batch", config.heads, config.max_target_length, config.head_size)
    return GraphSignature(
        name="decoder",
        inputs=(
            *cache.NEW_TOKENS,
            *cache.specs("self", layers, axes, "_in"),
            *_cross_specs(config),
        ),
        outputs=(
            TensorSpec(name=LOGITS, dtype="float32", axes=("batch", "scored", config.vocabulary_size)),
            *cache.specs("self", layers, axes, "_out"),
        ),
        aliases=cache.aliases("self", layers),
    )


def _cross_specs(config: VisionSeq2SeqConfig) -> tuple[TensorSpec, ...]:
    axes = ("batch", config.heads, config.source_length, config.head_size)
    return cache.specs("cross", config.decoder_blocks, axes)


class CaptionEncoderGraph(nn.Module):
    """The encoder with every decoder block's projection of its output."""

    def __init__(self, model: VisionSeq2Seq) -> None:
        super().__init__()
        self.model = model

    def forward(self, pixels: Tensor) -> list[Tensor]:
        return cache.flat(self.model.cross_keys_and_values(self.model.encode(pixels)))


class CaptionDecoderGraph(nn.Module):
    """The cached decoder with its caches as a flat list."""

    def __init__(self, model: VisionSeq2Seq) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, token_ids: Tensor, start: Tensor, self_mask: Tensor, scored: Tensor, *memories: Tensor
    ) -> list[Tensor]:
        pairs = cache.pair_keys_and_values(memories)
        layers = len(pairs) // 2
        logits, caches = self.model.decode_cached(
            token_ids, start, self_mask, None, pairs[:layers], pairs[layers:], scored
        )
        return [logits, *cache.flat(caches)]


GRAPHS = GraphBuilder(
    task="caption", build=graphs, details=details, typical_inputs=typical_inputs, explained=explained_graphs
)
