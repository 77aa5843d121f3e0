"""The position-wise feed-forward network, plain and gated.

    MLP(x) = act(x W_1 + b_1) W_2 + b_2        Gated(x) = (act(x W_g) ⊙ x W_1) W_2, SwiGLU where act is SiLU

    ReLU(x) = max(0, x)    GELU(x) = x Φ(x), exactly by erf, or approximately by tanh or as x σ(1.702 x)
    SiLU(x) = x σ(x)

Legend: B batch, S positions, E model width, F inner width.
Source: Vaswani et al. 2017, section 3.3 (ReLU); Hendrycks and Gimpel 2016, "Gaussian Error Linear Units", section 2
(its forms; that by tanh is at most 4.7e-4 off, that by σ 0.02); Shazeer 2020, "GLU Variants Improve Transformer",
section 2 (gated).
"""

from collections.abc import Callable
from functools import partial
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from models.layers.joined import Joining

GatedProduct = Callable[[Tensor, Tensor], Tensor | None]
"""SiLU of one tensor times another, of ``[B, S, F]``; None where it cannot."""

Activation = Literal["relu", "gelu", "gelu_tanh", "gelu_sigmoid", "silu"]
ACTIVATIONS: tuple[Activation, ...] = get_args(Activation)


class SigmoidGELU(nn.Module):
    """GELU's approximation by a logistic function, which OpenAI's models call quick."""

    def forward(self, inputs: Tensor) -> Tensor:
        """Any shape → the same."""
        return inputs * torch.sigmoid(1.702 * inputs)


_MODULES: dict[Activation, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "gelu": nn.GELU,
    "gelu_tanh": partial(nn.GELU, approximate="tanh"),
    "gelu_sigmoid": SigmoidGELU,
    "silu": nn.SiLU,
}


class MLP(nn.Module):
    """Two linear layers with an activation between them; dropout after each, as ViT has it."""

    def __init__(
        self, width: int, inner_width: int, activation: Activation, dropout: float = 0.0, bias: bool = True
    ) -> None:
        super().__init__()
        self.expand = nn.Linear(width, inner_width, bias=bias)
        self.activation = _MODULES[activation]()
        self.contract = nn.Linear(inner_width, width, bias=bias)
        self.dropout = nn.Dropout(dropout)

    def forward(self, inputs: Tensor) -> Tensor:
        """``[B, S, E]`` → ``[B, S, E]``."""
        hidden_BSF = self.dropout(self.activation(self.expand(inputs)))
        outputs_BSE: Tensor = self.dropout(self.contract(hidden_BSF))
        return outputs_BSE


class GatedMLP(Joining):
    """A linear layer whose every output is scaled by an activated gate; without biases, unless they are asked for.

    Attributes:
        product: what may scale by gates under SiLU at once.
    """

    product: GatedProduct | None = None

    def __init__(
        self, width: int, inner_width: int, activation: Activation, dropout: float = 0.0, bias: bool = False
    ) -> None:
        super().__init__()
        self.gate = nn.Linear(width, inner_width, bias=bias)
        self.expand = nn.Linear(width, inner_width, bias=bias)
        self.activation = _MODULES[activation]()
        self.contract = nn.Linear(inner_width, width, bias=bias)
        self.dropout = nn.Dropout(dropout)

    def forward(self, inputs: Tensor) -> Tensor:
        """``[B, S, E]`` → ``[B, S, E]``."""
        gate_BSF, expanded_BSF = self.joined(inputs) if self.joined else (self.gate(inputs), self.expand(inputs))
        at_once = self.product if isinstance(self.activation, nn.SiLU) else None
        hidden_BSF = None if at_once is None else at_once(gate_BSF, expanded_BSF)
        if hidden_BSF is None:
            hidden_BSF = self.activation(gate_BSF) * expanded_BSF
        outputs_BSE: Tensor = self.contract(self.dropout(hidden_BSF))
        return outputs_BSE

    def joinable(self) -> tuple[nn.Linear, ...]:
        """Both that read the input."""
        return self.gate, self.expand


def scale_by(module: nn.Module, product: GatedProduct | None) -> None:
    """Let every gated layer inside a module scale by a kernel."""
    for part in module.modules():
        if isinstance(part, GatedMLP):
            part.product = product
