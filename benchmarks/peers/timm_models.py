"""timm, whose models need no operator of torchvision's: they are declared, as its wheel looks for CUDA's libraries."""

import torch

_OPERATORS = torch.library.Library("torchvision", "DEF")  # declared for as long as it lives
for schema in (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor a, Tensor b, float c) -> Tensor",
):
    _OPERATORS.define(schema)

import timm  # noqa: E402 - behind what it needs

__all__ = ["timm"]
