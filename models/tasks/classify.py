"""``classify``: one graph, ``model``: pixels → logits.

Legend: B batch, C channels, K classes.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from models.families.vit import ViT, ViTConfig
from models.signature import GraphSignature, TensorSpec
from models.tasks.graph import TaskGraph
from models.tasks.task import Task
from models.tensor_names import LOGITS, PIXELS


def graphs(model: ViT) -> tuple[TaskGraph, ...]:
    """The one graph of a classifier."""
    return (TaskGraph(signature=signature(model.config), module=model),)


def details(config: ViTConfig) -> dict[str, Any]:
    """Nothing beyond the checkpoint's own details: labels and preprocessing."""
    return {}


def question(config: ViTConfig) -> tuple[Tensor, ...]:
    """One image."""
    return (torch.zeros(1, config.channels, config.image_size, config.image_size),)


def signature(config: ViTConfig) -> GraphSignature:
    """Pixels ``[B, C, side, side]`` → logits ``[B, K]``."""
    side = config.image_size
    return GraphSignature(
        name="model",
        inputs=(TensorSpec(name=PIXELS, dtype="float32", axes=("batch", config.channels, side, side)),),
        outputs=(TensorSpec(name=LOGITS, dtype="float32", axes=("batch", config.classes)),),
    )


TASK = Task(name="classify", graphs=graphs, details=details, question=question)
