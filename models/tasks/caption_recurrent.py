"""``caption``, by a CNN and a recurrent decoder: pixels → a text, token by token.

``encoder``: pixels → what the decoder looks at, and its first states, once a request;
``decoder``: one target token + states → logits + the same states, in place: the state is the cache. With attention also
the alignment, the weights of the positions of the grid.

Legend: B batch, L positions of the grid, H width of a state, V vocabulary.
"""

from __future__ import annotations

from torch import Tensor, nn

from models.families.rnn_captioner import RecurrentCaptioner, RecurrentCaptionerConfig
from models.signature import GraphSignature, TensorSpec
from models.tasks.caption import details, question
from models.tasks.graph import TaskGraph
from models.tasks.recurrent_memory import alignment_specs, explained, memory_specs, state_aliases, state_specs
from models.tasks.task import Task
from models.tensor_names import LOGITS, PIXELS


def graphs(model: RecurrentCaptioner) -> tuple[TaskGraph, ...]:
    """The two graphs of a captioner, in the order in which a request passes them."""
    config = model.config
    return (
        TaskGraph(signature=encoder_signature(config), module=EncoderGraph(model)),
        TaskGraph(
            signature=decoder_signature(config),
            module=DecoderGraph(model),
            below={"token_ids": config.vocabulary_size},
        ),
    )


def encoder_signature(config: RecurrentCaptionerConfig) -> GraphSignature:
    """Pixels ``[B, *pixel shape]`` → the memory, and the decoder's first states ``[B, H]``."""
    return GraphSignature(
        name="encoder",
        inputs=(TensorSpec(name=PIXELS, dtype="float32", axes=("batch", *config.pixel_shape)),),
        outputs=(*memory_specs(config, config.source_length), *state_specs(config)),
    )


def decoder_signature(config: RecurrentCaptionerConfig) -> GraphSignature:
    """One token ``[B, 1]`` and states ``[B, H]`` → logits ``[B, 1, V]``, the alignment ``[B, 1, L]`` and the states."""
    return GraphSignature(
        name="decoder",
        inputs=(
            TensorSpec(name="token_ids", dtype="int64", axes=("batch", 1)),
            *state_specs(config, "_in"),
            *memory_specs(config, config.source_length),
        ),
        outputs=(
            TensorSpec(name=LOGITS, dtype="float32", axes=("batch", 1, config.vocabulary_size)),
            *alignment_specs(config, config.source_length),
            *state_specs(config, "_out"),
        ),
        aliases=state_aliases(config),
    )


class EncoderGraph(nn.Module):
    """The encoder with its results as a flat list."""

    def __init__(self, model: RecurrentCaptioner) -> None:
        super().__init__()
        self.model = model

    def forward(self, pixels: Tensor) -> list[Tensor]:
        """See :func:`encoder_signature`."""
        memory, states = self.model.encode(pixels)
        return [*memory, *states]


class DecoderGraph(nn.Module):
    """One step of the decoder with its states as a flat list."""

    def __init__(self, model: RecurrentCaptioner) -> None:
        super().__init__()
        self.model = model

    def forward(self, token_ids: Tensor, *remembered: Tensor) -> list[Tensor]:
        """See :func:`decoder_signature`; what is remembered: states, then the memory."""
        count = self.model.config.states
        decoded = self.model.step(token_ids, remembered[:count], remembered[count:])
        alignments = [] if decoded.alignments is None else [decoded.alignments]
        return [decoded.logits, *alignments, *decoded.states]


TASK = Task(name="caption", graphs=graphs, details=details, question=question, explained=explained)
