"""The orders in which a sublayer, its residual connection and its normalisation can stand.

    post-norm: Norm(x + dropout(f(x)))    pre-norm: x + dropout(f(Norm(x)))    res-post-norm: x + Norm(dropout(f(x)))

Source: Vaswani et al. 2017, section 3.1 (post-norm); Xiong et al. 2020, "On Layer Normalization in the Transformer
Architecture", figure 1; Liu et al. 2022, "Swin Transformer V2", section 3.2 (res-post-norm).
"""

from collections.abc import Callable
from typing import Literal

from torch import Tensor, nn

from models.layers.norm import Norm, norm

Order = Literal["post", "pre"]


class PostNorm(nn.Module):
    """Normalise the sum of a sublayer and its input."""

    def __init__(self, width: int, eps: float, dropout: float = 0.0, kind: Norm = "layer") -> None:
        super().__init__()
        self.norm = norm(kind, width, eps)
        self.dropout = nn.Dropout(dropout)

    def forward(self, inputs: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """``[B, S, E]`` → ``[B, S, E]``."""
        normed: Tensor = self.norm(inputs + self.dropout(sublayer(inputs)))
        return normed


class PreNorm(nn.Module):
    """Add a sublayer of the normalised input to the input."""

    def __init__(self, width: int, eps: float, dropout: float = 0.0, kind: Norm = "layer") -> None:
        super().__init__()
        self.norm = norm(kind, width, eps)
        self.dropout = nn.Dropout(dropout)

    def forward(self, inputs: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """``[B, S, E]`` → ``[B, S, E]``."""
        added: Tensor = inputs + self.dropout(sublayer(self.norm(inputs)))
        return added


class ResPostNorm(nn.Module):
    """Add the normalised result of a sublayer to its input, so that sums grow slowly with depth."""

    def __init__(self, width: int, eps: float, dropout: float = 0.0, kind: Norm = "layer") -> None:
        super().__init__()
        self.norm = norm(kind, width, eps)
        self.dropout = nn.Dropout(dropout)

    def forward(self, inputs: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """``[B, S, E]`` → ``[B, S, E]``."""
        added: Tensor = inputs + self.norm(self.dropout(sublayer(inputs)))
        return added


RESIDUALS: dict[Order, type[PostNorm] | type[PreNorm]] = {"post": PostNorm, "pre": PreNorm}
