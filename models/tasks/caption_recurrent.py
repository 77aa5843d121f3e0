"""``caption``, by a CNN and a recurrent decoder: pixels → a text, token by token.

``encoder``: pixels → what the decoder looks at, and its first states, once a request;
``decoder``: one target token + states → logits + the same states, in place: the state is the cache. With attention also
the alignment, the weights of the positions of the grid. An image may have any sides from one stride of the CNN to those
that the model was trained for: convolutions, a mean and attention take as many positions as there are.

Legend: B batch, C channels, L positions of the grid, H width of a state, V vocabulary.
"""

from typing import Any

from torch import Tensor, nn

from attendant.signature import GraphSignature, TensorSpec
from attendant.tensor_names import HEIGHT, LOGITS, PIXELS, POSITIONS, WIDTH
from models.families.rnn_captioner import RecurrentCaptioner, RecurrentCaptionerConfig
from models.task_graph import GraphBuilder, TaskGraph
from models.tasks import caption
from models.tasks.recurrent_memory import alignment_specs, explained_graphs, memory_specs, state_aliases, state_specs

# A side of fewer strides leaves the exporter no two different sizes above one position.
_LEAST_STRIDES = 4


def graphs(model: RecurrentCaptioner) -> tuple[TaskGraph, ...]:
    """The two graphs of a captioner, in the order in which a request passes them."""
    config = model.config
    sides = dict.fromkeys((HEIGHT, WIDTH), config.image_size) if _varies(config) else {}
    positions = {POSITIONS: config.source_length} if _varies(config) and config.attends else {}
    return (
        TaskGraph(
            signature=encoder_signature(config),
            module=RecurrentCaptionEncoderGraph(model),
            largest=sides,
            smallest=dict.fromkeys(sides, config.grid.stride),
        ),
        TaskGraph(
            signature=decoder_signature(config),
            module=RecurrentCaptionDecoderGraph(model),
            largest=positions,
            below={"token_ids": config.vocabulary_size},
        ),
    )


def details(config: RecurrentCaptionerConfig) -> dict[str, Any]:
    """As of any captioner, and the side of the images that it was trained for."""
    return {**caption.details(config), "image_size": config.image_size}


def encoder_signature(config: RecurrentCaptionerConfig) -> GraphSignature:
    """Pixels ``[B, C, height, width]`` → the memory, and the decoder's first states ``[B, H]``."""
    sides = (HEIGHT, WIDTH) if _varies(config) else config.pixel_shape[1:]
    return GraphSignature(
        name="encoder",
        inputs=(TensorSpec(name=PIXELS, dtype="float32", axes=("batch", config.channels, *sides)),),
        outputs=(*memory_specs(config, _positions(config)), *state_specs(config)),
    )


def decoder_signature(config: RecurrentCaptionerConfig) -> GraphSignature:
    """One token ``[B, 1]`` and states ``[B, H]`` → logits ``[B, 1, V]``, the alignment ``[B, 1, L]`` and the states."""
    return GraphSignature(
        name="decoder",
        inputs=(
            TensorSpec(name="token_ids", dtype="int64", axes=("batch", 1)),
            *state_specs(config, "_in"),
            *memory_specs(config, _positions(config)),
        ),
        outputs=(
            TensorSpec(name=LOGITS, dtype="float32", axes=("batch", 1, config.vocabulary_size)),
            *alignment_specs(config, _positions(config)),
            *state_specs(config, "_out"),
        ),
        aliases=state_aliases(config),
    )


def _varies(config: RecurrentCaptionerConfig) -> bool:
    return config.image_size >= _LEAST_STRIDES * config.grid.stride


def _positions(config: RecurrentCaptionerConfig) -> int | str:
    return POSITIONS if _varies(config) else config.source_length


class RecurrentCaptionEncoderGraph(nn.Module):
    """The encoder with its results as a flat list."""

    def __init__(self, model: RecurrentCaptioner) -> None:
        super().__init__()
        self.model = model

    def forward(self, pixels: Tensor) -> list[Tensor]:
        memory, states = self.model.encode(pixels)
        return [*memory, *states]


class RecurrentCaptionDecoderGraph(nn.Module):
    """One step of the decoder with its states as a flat list."""

    def __init__(self, model: RecurrentCaptioner) -> None:
        super().__init__()
        self.model = model

    def forward(self, token_ids: Tensor, *remembered: Tensor) -> list[Tensor]:
        count = self.model.config.states
        decoded = self.model.step(token_ids, remembered[:count], remembered[count:])
        alignments = [] if decoded.alignments is None else [decoded.alignments]
        return [decoded.logits, *alignments, *decoded.states]


GRAPHS = GraphBuilder(
    task="caption", build=graphs, details=details, typical_inputs=caption.typical_inputs, explained=explained_graphs
)
