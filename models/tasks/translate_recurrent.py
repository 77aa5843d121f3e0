"""``translate``, by a recurrent encoder-decoder: text → another text, token by token.

``encoder``: source → what the decoder looks at, and its first states, once a request;
``decoder``: one target token + states → logits + the same states, in place: the state is the cache. With attention also
the alignment, the weights of the source positions.

Legend: B batch, S source positions, H width of a state, C width of an annotation, A width of the alignment network,
V vocabulary.
"""

from typing import Any

import torch
from torch import Tensor, nn

from attendant.signature import GraphSignature, TensorSpec
from attendant.tensor_names import LOGITS
from models.families.rnn_seq2seq import RecurrentSeq2Seq, RecurrentSeq2SeqConfig
from models.task_graph import GraphBuilder, TaskGraph
from models.tasks.recurrent_memory import alignment_specs, explained_graphs, memory_specs, state_aliases, state_specs


def graphs(model: RecurrentSeq2Seq) -> tuple[TaskGraph, ...]:
    """The two graphs of a translator, in the order in which a request passes them."""
    config, source = model.config, {"source": model.config.max_source_length}
    largest = source if config.attends else {}
    return (
        TaskGraph(
            signature=encoder_signature(config),
            module=RecurrentTranslationEncoderGraph(model),
            largest=source,
            below={"source_ids": config.source_vocabulary_size},
        ),
        TaskGraph(
            signature=decoder_signature(config),
            module=RecurrentTranslationDecoderGraph(model),
            largest=largest,
            below={"token_ids": config.target_vocabulary_size},
        ),
    )


def details(config: RecurrentSeq2SeqConfig) -> dict[str, Any]:
    names = ("start_token", "end_token", "max_source_length", "max_target_length")
    return {name: getattr(config, name) for name in names}


def typical_inputs(config: RecurrentSeq2SeqConfig) -> tuple[Tensor | None, ...]:
    """As many source and target tokens as the model takes, up to 128, without padding."""
    source_ids = torch.zeros(1, min(128, config.max_source_length), dtype=torch.int64)
    target_ids = torch.zeros(1, min(128, config.max_target_length), dtype=torch.int64)
    return source_ids, None, target_ids


def encoder_signature(config: RecurrentSeq2SeqConfig) -> GraphSignature:
    """Source ids and mask ``[B, S]`` → the memory, and the decoder's first states ``[B, H]``."""
    return GraphSignature(
        name="encoder",
        inputs=(TensorSpec(name="source_ids", dtype="int64", axes=("batch", "source")), _SOURCE_MASK),
        outputs=(*memory_specs(config, "source"), *state_specs(config)),
    )


def decoder_signature(config: RecurrentSeq2SeqConfig) -> GraphSignature:
    """One token ``[B, 1]`` and states ``[B, H]`` → logits ``[B, 1, V]``, the alignment ``[B, 1, S]`` and the states."""
    return GraphSignature(
        name="decoder",
        inputs=(
            TensorSpec(name="token_ids", dtype="int64", axes=("batch", 1)),
            *([_SOURCE_MASK] if config.attends else []),
            *state_specs(config, "_in"),
            *memory_specs(config, "source"),
        ),
        outputs=(
            TensorSpec(name=LOGITS, dtype="float32", axes=("batch", 1, config.target_vocabulary_size)),
            *alignment_specs(config, "source"),
            *state_specs(config, "_out"),
        ),
        aliases=state_aliases(config),
    )


_SOURCE_MASK = TensorSpec(name="source_mask", dtype="bool", axes=("batch", "source"))


class RecurrentTranslationEncoderGraph(nn.Module):
    """The encoder with its results as a flat list."""

    def __init__(self, model: RecurrentSeq2Seq) -> None:
        super().__init__()
        self.model = model

    def forward(self, source_ids: Tensor, source_mask: Tensor) -> list[Tensor]:
        memory, states = self.model.encode(source_ids, source_mask)
        return [*memory, *states]


class RecurrentTranslationDecoderGraph(nn.Module):
    """One step of the decoder with its states as a flat list."""

    def __init__(self, model: RecurrentSeq2Seq) -> None:
        super().__init__()
        self.model = model

    def forward(self, token_ids: Tensor, *remembered: Tensor) -> list[Tensor]:
        config = self.model.config
        source_mask, tensors = (remembered[0], remembered[1:]) if config.attends else (None, remembered)
        decoded = self.model.step(token_ids, tensors[: config.states], tensors[config.states :], source_mask)
        alignments = [] if decoded.alignments is None else [decoded.alignments]
        return [decoded.logits, *alignments, *decoded.states]


GRAPHS = GraphBuilder(
    task="translate", build=graphs, details=details, typical_inputs=typical_inputs, explained=explained_graphs
)
