"""A graph that takes the bytes of an image: what a client does to their values is done in it.

    pixels = (bytes · scale − mean) / deviation, channels first

Legend: B batch, C channels.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from attendant.errors import ConfigError
from attendant.signature import GraphSignature, TensorSpec
from attendant.tensor_names import PIXELS
from models.task_graph import TaskGraph

IMAGE_AXES = 4


class PixelNormalisation(nn.Module):
    mean: Tensor
    deviation: Tensor

    def __init__(self, preprocessing: Mapping[str, Any]) -> None:
        super().__init__()
        self.scale = float(preprocessing["scale"])
        for name in ("mean", "deviation"):
            self.register_buffer(name, torch.tensor(preprocessing[name], dtype=torch.float32)[:, None, None])

    def forward(self, image: Tensor) -> Tensor:
        """uint8 ``[B, height, width, C]`` → ``[B, C, height, width]`` of the buffers' type."""
        values_BChw = image.to(self.mean.dtype).permute(0, 3, 1, 2)  # TensorRT does nothing with bytes but to cast them
        return (values_BChw * self.scale - self.mean) / self.deviation


class FromBytes(nn.Module):
    """A module whose one argument was pixels, and is bytes."""

    def __init__(self, module: nn.Module, preprocessing: Mapping[str, Any]) -> None:
        super().__init__()
        self.prepared = PixelNormalisation(preprocessing)
        self.module = module

    def forward(self, image: Tensor) -> Any:
        """What the module makes of uint8 ``[B, height, width, C]``."""
        return self.module(self.prepared(image))


class CaptionerFromBytes(FromBytes):
    """A captioner, whole: bytes and target tokens to logits."""

    def forward(self, image: Tensor, target_ids: Tensor) -> Any:  # type: ignore[override]  # a captioner's two arguments
        """What the module makes of uint8 ``[B, height, width, C]`` and int64 ``[B, T]``."""
        return self.module(self.prepared(image), target_ids)


def from_bytes(graph: TaskGraph, preprocessing: Mapping[str, Any] | None) -> TaskGraph:
    """The graph with ``pixels`` as uint8 ``[B, height, width, C]``; one without pixels as it is.

    Raises:
        ConfigError: the checkpoint does not say how an image is prepared, or the pixels are not those of images.
    """
    first = graph.signature.inputs[0]
    if first.name != PIXELS:
        return graph
    if preprocessing is None or len(first.axes) != IMAGE_AXES:
        found = "no preprocessing" if preprocessing is None else f"pixels {list(first.axes)}"
        raise ConfigError("images, and a checkpoint that says how they are prepared", found, "leave --uint8 out")
    batch, channels, height, width = first.axes
    image = TensorSpec(name=PIXELS, dtype="uint8", axes=(batch, height, width, channels))
    signature = replace(graph.signature, inputs=(image,))
    return replace(graph, signature=signature, module=FromBytes(graph.module, preprocessing))


def takes_bytes(signature: GraphSignature) -> bool:
    """Whether a graph takes the bytes of images."""
    first = signature.inputs[0]
    return first.name == PIXELS and first.dtype == "uint8"


def example_in_bytes(example: Mapping[str, Any], preprocessing: Mapping[str, Any]) -> dict[str, Any]:
    """A checkpoint's example for such a graph; without pixels it has no answer: zeros mean something else then."""
    inputs = dict(example.get("inputs", {}))
    if PIXELS not in inputs:
        return {"inputs": inputs} if inputs else {}
    mean, deviation = (torch.tensor(preprocessing[name])[:, None, None] for name in ("mean", "deviation"))
    values_Chw = (torch.tensor(inputs[PIXELS]) * deviation + mean) / preprocessing["scale"]
    inputs[PIXELS] = values_Chw.round().clamp(0, 255).byte().permute(1, 2, 0).tolist()
    return {**example, "inputs": inputs}
