"""``embed``: one graph, ``model``: tokens → a vector for each token and one for the whole sequence.

Legend: B batch, S positions, E model width.
"""

from __future__ import annotations

from typing import Any

from models.families.encoder import Encoder, EncoderConfig
from models.signature import GraphSignature, TensorSpec
from models.tasks.graph import TaskGraph


def graphs(model: Encoder) -> tuple[TaskGraph, ...]:
    """The one graph of an encoder."""
    largest = {"tokens": model.config.max_length}
    return (TaskGraph(signature=signature(model.config), module=model, largest=largest),)


def details(config: EncoderConfig) -> dict[str, Any]:
    """The longest sequence, and what shorter ones are filled up with."""
    return {"max_length": config.max_length, "pad_token": config.pad_token}


def signature(config: EncoderConfig) -> GraphSignature:
    """Token ids, mask and token types ``[B, S]`` → hidden vectors ``[B, S, E]`` and pooled ones ``[B, E]``."""
    tokens = ("batch", "tokens")
    return GraphSignature(
        name="model",
        inputs=(
            TensorSpec(name="token_ids", dtype="int64", axes=tokens),
            TensorSpec(name="mask", dtype="bool", axes=tokens),
            TensorSpec(name="token_types", dtype="int64", axes=tokens),
        ),
        outputs=(
            TensorSpec(name="hidden", dtype="float32", axes=(*tokens, config.width)),
            TensorSpec(name="pooled", dtype="float32", axes=("batch", config.width)),
        ),
    )
