"""``classify``: one graph, ``model``: pixels of an image or a video → logits.

Legend: B batch, K classes.
"""

from typing import Any, Protocol

import torch
from torch import Tensor

from attendant.signature import GraphSignature, TensorSpec
from attendant.tensor_names import LOGITS, PIXELS
from models.task_graph import GraphBuilder, TaskGraph
from models.tasks.explained import explained_classifier


class ClassifierConfig(Protocol):
    """What a classifier's configuration says of its two tensors.

    Attributes:
        classes: K.
        pixel_shape: of one image or video: channels, height, width; frames before them in a video.
    """

    @property
    def classes(self) -> int: ...

    @property
    def pixel_shape(self) -> tuple[int, ...]: ...


def graphs(model: Any) -> tuple[TaskGraph, ...]:
    """The one graph of a classifier."""
    return (TaskGraph(signature=signature(model.config), module=model),)


def explained_graphs(model: Any) -> tuple[TaskGraph, ...]:
    """One graph more: the same with attention maps; see :mod:`models.tasks.explained`."""
    return tuple(explained_classifier(graph) for graph in graphs(model))


def details(config: ClassifierConfig) -> dict[str, Any]:
    return {}


def typical_inputs(config: ClassifierConfig) -> tuple[Tensor, ...]:
    """One image, or one video."""
    return (torch.zeros(1, *config.pixel_shape),)


def signature(config: ClassifierConfig) -> GraphSignature:
    """Pixels ``[B, *pixel shape]`` → logits ``[B, K]``."""
    return GraphSignature(
        name="model",
        inputs=(TensorSpec(name=PIXELS, dtype="float32", axes=("batch", *config.pixel_shape)),),
        outputs=(TensorSpec(name=LOGITS, dtype="float32", axes=("batch", config.classes)),),
    )


GRAPHS = GraphBuilder(
    task="classify", build=graphs, details=details, typical_inputs=typical_inputs, explained=explained_graphs
)
