"""The block of vision Transformers: self-attention, then an MLP, each behind a pre-norm residual.

    z' = z + dropout(Attention(LayerNorm(z)))        z'' = z' + MLP(LayerNorm(z'))

Legend: B batch, S tokens, E model width.
Source: Dosovitskiy et al. 2021, "An Image is Worth 16x16 Words", equations 2 and 3.
"""

from torch import Tensor, nn

from models.layers.attention import MultiHeadAttention
from models.layers.mlp import MLP, Activation
from models.layers.residual import PreNorm


class VisionBlock(nn.Module):
    """Self-attention and MLP of tokens that all see each other.

    Args:
        width: E.
        heads: number of attention heads.
        mlp_width: inner width of the MLP.
        norm_eps: ε of both layer normalisations.
        dropout: rate during training.
        query_bias: whether the projections of queries, keys and values have biases.
        activation: of the MLP.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        mlp_width: int,
        norm_eps: float,
        dropout: float = 0.0,
        query_bias: bool = True,
        activation: Activation = "gelu",
    ) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(width, heads, query_bias, output_bias=True)
        self.mlp = MLP(width, mlp_width, activation, dropout)
        self.attention_residual = PreNorm(width, norm_eps, dropout)
        self.mlp_residual = PreNorm(width, norm_eps)

    def forward(self, tokens: Tensor) -> Tensor:
        """``[B, S, E]`` → ``[B, S, E]``."""
        attended: Tensor = self.attention_residual(tokens, lambda x: self.attention(x, x))
        mixed: Tensor = self.mlp_residual(attended, self.mlp)
        return mixed
