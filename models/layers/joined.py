"""Linear layers of one input, computed as one product: a GPU starts one kernel instead of several.

    [x W_1 + b_1 | x W_2 + b_2 | …] = x [W_1 | W_2 | …] + [b_1 | b_2 | …]

Legend: B batch, S positions, E width of the input, F width of an output.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class JoinedLinear:
    """Linear layers whose weights lie in one piece; each layer keeps its own, as a part of that."""

    def __init__(self, *layers: nn.Linear) -> None:
        """Move the layers' weights, and biases if they have them, into one piece; they have all or none of those."""
        self.widths = [layer.out_features for layer in layers]
        with torch.no_grad():
            weights: list[Tensor] = [layer.weight for layer in layers]
            biases: list[Tensor] = [layer.bias for layer in layers if layer.bias is not None]
            self.weight = torch.cat(weights)
            self.bias = torch.cat(biases) if biases else None
        for layer, weight in zip(layers, torch.split(self.weight, self.widths), strict=True):
            layer.weight.data = weight
        for layer, bias in zip(layers, () if self.bias is None else torch.split(self.bias, self.widths), strict=False):
            layer.bias.data = bias

    def __call__(self, inputs: Tensor) -> tuple[Tensor, ...]:
        """Of ``[B, S, E]`` each layer's ``[B, S, F]``, parts of one tensor."""
        return self.split(F.linear(inputs, self.weight, self.bias))

    def split(self, outputs: Tensor) -> tuple[Tensor, ...]:
        """Of the product ``[B, S, ΣF]`` each layer's part."""
        return torch.split(outputs, self.widths, -1)


class Joining(nn.Module):
    """A layer some of whose projections can be joined.

    Attributes:
        joined: those of :meth:`joinable`, once :func:`join_projections` has joined them.
    """

    joined: JoinedLinear | None = None

    def joinable(self) -> tuple[nn.Linear, ...]:
        """The projections of one input, in their order; none where they have not the same input."""
        raise NotImplementedError


def join_projections(module: nn.Module) -> None:
    """Join what can be joined in every layer inside a module that will neither move nor be exported any more."""
    for part in module.modules():
        if isinstance(part, Joining) and part.joined is None:
            layers = part.joinable()
            if len({layer.bias is None for layer in layers}) == 1:
                part.joined = JoinedLinear(*layers)
