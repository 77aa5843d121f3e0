"""The position-wise feed-forward network.

    MLP(x) = act(x W_1 + b_1) W_2 + b_2

Legend: B batch, S positions, E model width, F inner width.
Source: Vaswani et al. 2017, section 3.3 (ReLU); Dosovitskiy et al. 2021, "An Image is Worth 16x16 Words",
section 3.1 (GELU, the exact form by erf of Hendrycks and Gimpel 2016).
"""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn

Activation = Literal["relu", "gelu"]
_ACTIVATIONS: dict[Activation, type[nn.Module]] = {"relu": nn.ReLU, "gelu": nn.GELU}


class MLP(nn.Module):
    """Two linear layers with an activation between them; dropout after each, as ViT has it."""

    def __init__(self, width: int, inner_width: int, activation: Activation, dropout: float = 0.0) -> None:
        super().__init__()
        self.expand = nn.Linear(width, inner_width)
        self.activation = _ACTIVATIONS[activation]()
        self.contract = nn.Linear(inner_width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, inputs: Tensor) -> Tensor:
        """``[B, S, E]`` → ``[B, S, E]``."""
        hidden_BSF = self.dropout(self.activation(self.expand(inputs)))
        outputs_BSE: Tensor = self.dropout(self.contract(hidden_BSF))
        return outputs_BSE
