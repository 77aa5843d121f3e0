"""``embed``: one graph, ``model``: tokens → a vector for each token and one for the whole sequence.

Legend: B batch, S positions, E model width.
"""

from typing import Any

import torch
from torch import Tensor

from attendant.signature import GraphSignature, TensorSpec
from models.families.encoder import Encoder, EncoderConfig
from models.task_graph import GraphBuilder, TaskGraph


def graphs(model: Encoder) -> tuple[TaskGraph, ...]:
    """The one graph of an encoder."""
    config = model.config
    return (
        TaskGraph(
            signature=signature(config),
            module=model,
            largest={"tokens": config.max_length},
            below={"token_ids": config.vocabulary_size, "token_types": config.token_types},
        ),
    )


def details(config: EncoderConfig) -> dict[str, Any]:
    """The longest sequence, and what shorter ones are filled up with."""
    return {"max_length": config.max_length, "pad_token": config.pad_token}


def typical_inputs(config: EncoderConfig) -> tuple[Tensor, ...]:
    """128 tokens, or as many as the model takes."""
    token_ids = torch.zeros(1, min(128, config.max_length), dtype=torch.int64)
    return token_ids, torch.ones_like(token_ids, dtype=torch.bool), torch.zeros_like(token_ids)


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


GRAPHS = GraphBuilder(task="embed", build=graphs, details=details, typical_inputs=typical_inputs)
