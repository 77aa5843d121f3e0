"""The two blocks of the Transformer, with whatever attention, feed-forward network and residual they are given.

    encoder: r_2(r_1(x, self-attention), MLP)        decoder: r_3(r_2(r_1(x, self-attention), cross-attention), MLP)

Each r_i is a residual connection with its normalisation (:mod:`models.layers.residual`).

Legend: B batch, S source positions, T target positions, H heads, D head size, E model width.
Source: Vaswani et al. 2017, "Attention Is All You Need", section 3.1 and figure 1.
"""

from collections.abc import Callable

from torch import Tensor, nn

from models.layers.attention import MultiHeadAttention
from models.layers.kv_cache import KeysValues, Remember

Residual = Callable[[], nn.Module]
"""Makes a new residual: of an input and a sublayer."""


class EncoderBlock(nn.Module):
    """Self-attention and MLP, each behind a residual."""

    def __init__(self, attention: MultiHeadAttention, mlp: nn.Module, residual: Residual) -> None:
        super().__init__()
        self.attention = attention
        self.mlp = mlp
        self.attention_residual = residual()
        self.mlp_residual = residual()

    def forward(self, hidden: Tensor, mask: Tensor, bias: Tensor | None = None) -> Tensor:
        """``[B, S, E]`` → ``[B, S, E]``; mask and bias are over ``[B, H, S, S]``, see :mod:`models.layers.attend`."""
        attended: Tensor = self.attention_residual(hidden, lambda x: self.attention(x, x, mask, bias))
        mixed: Tensor = self.mlp_residual(attended, self.mlp)
        return mixed


class DecoderBlock(nn.Module):
    """Self-attention, cross-attention and MLP, each behind a residual."""

    def __init__(
        self,
        self_attention: MultiHeadAttention,
        cross_attention: MultiHeadAttention,
        mlp: nn.Module,
        residual: Residual,
    ) -> None:
        super().__init__()
        self.self_attention = self_attention
        self.cross_attention = cross_attention
        self.mlp = mlp
        self.self_residual = residual()
        self.cross_residual = residual()
        self.mlp_residual = residual()

    def forward(
        self,
        hidden: Tensor,
        remember: Remember,
        self_mask: Tensor,
        cross: KeysValues,
        cross_mask: Tensor | None,
        bias: Tensor | None = None,
    ) -> Tensor:
        """One block over new target positions.

        Args:
            hidden: ``[B, T, E]``.
            remember: from the new positions' keys and values ``[B, H, T, D]`` to those to attend to.
            self_mask: bool, over new positions and what ``remember`` returns.
            cross: the source's keys and values, ``[B, H, S, D]`` each.
            cross_mask: bool ``[B, 1, T, S]``; a source without padding needs none.
            bias: of the scores of self-attention, over the same as ``self_mask``.

        Returns:
            ``[B, T, E]``.
        """
        attend_self = self.self_attention.attend_behind
        hidden = self.self_residual(hidden, lambda x: attend_self(x, remember, self_mask, bias))
        hidden = self.cross_residual(hidden, lambda x: self.cross_attention.attend_to(x, *cross, cross_mask))
        mixed: Tensor = self.mlp_residual(hidden, self.mlp)
        return mixed
