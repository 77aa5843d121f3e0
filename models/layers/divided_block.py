"""Divided space-time attention: every patch attends to its own place in other frames, then to its own frame.

    z'  = z + W · TimeAttention(LayerNorm(z)), among the F frames of one place
    z'' = z' + SpaceAttention(LayerNorm(z')), among the class token and the P patches of one frame
    out = z'' + MLP(LayerNorm(z''))

The class token takes no part in time attention; every frame gets a copy of it, and the copies are averaged.

Legend: B batch, F frames, P patches of a frame, N = P F with the frames of a place side by side, E model width.
Source: Bertasius et al. 2021, "Is Space-Time Attention All You Need for Video Understanding?", section 3, "Space-Time
Self-Attention Models", with the linear layer W and the average of the authors' code.
"""

import torch
from torch import Tensor, nn

from models.layers.attention import MultiHeadAttention
from models.layers.mlp import MLP, Activation
from models.layers.residual import PreNorm


class DividedBlock(nn.Module):
    """Attention through time, attention through space, and an MLP.

    Args:
        frames: F.
        width: E.
        heads: of either attention.
        mlp_width: inner width of the MLP.
        norm_eps: ε of the three layer normalisations.
        dropout: rate during training.
        query_bias: whether the projections of queries, keys and values have biases.
        activation: of the MLP.
    """

    def __init__(
        self,
        frames: int,
        width: int,
        heads: int,
        mlp_width: int,
        norm_eps: float,
        dropout: float = 0.0,
        query_bias: bool = True,
        activation: Activation = "gelu",
    ) -> None:
        super().__init__()
        self.frames = frames
        self.time_attention = MultiHeadAttention(width, heads, query_bias, output_bias=True)
        self.time_linear = nn.Linear(width, width)
        self.space_attention = MultiHeadAttention(width, heads, query_bias, output_bias=True)
        self.mlp = MLP(width, mlp_width, activation, dropout)
        self.time_residual = PreNorm(width, norm_eps)
        self.space_residual = PreNorm(width, norm_eps, dropout)
        self.mlp_residual = PreNorm(width, norm_eps)
        self.dropout = nn.Dropout(dropout)

    def forward(self, tokens: Tensor) -> Tensor:
        """``[B, 1 + N, E]``, the class token first → ``[B, 1 + N, E]``."""
        patches_BNE = tokens[:, 1:]
        _, length, width = patches_BNE.shape
        places_XFE: Tensor = self.time_residual(patches_BNE.reshape(-1, self.frames, width), self._time)
        patches_BNE = places_XFE.reshape(-1, length, width)
        mixed: Tensor = self.mlp_residual(self._through_space(tokens[:, :1], patches_BNE), self.mlp)
        return mixed

    def _time(self, x_XFE: Tensor) -> Tensor:
        moved_XFE: Tensor = self.time_linear(self.dropout(self.time_attention(x_XFE, x_XFE)))
        return moved_XFE

    def _through_space(self, class_B1E: Tensor, patches_BNE: Tensor) -> Tensor:
        _, length, width = patches_BNE.shape
        patches_BFPE = patches_BNE.reshape(-1, length // self.frames, self.frames, width).transpose(1, 2)
        copies_BF1E = class_B1E[:, None].expand(-1, self.frames, -1, -1)
        frames_XSE = torch.cat([copies_BF1E, patches_BFPE], dim=2).flatten(0, 1)
        frames_XSE = self.space_residual(frames_XSE, lambda x: self.space_attention(x, x))
        frames_BFSE = frames_XSE.reshape(-1, self.frames, *frames_XSE.shape[1:])
        class_B1E = frames_BFSE[:, :, 0].mean(1, keepdim=True)
        return torch.cat([class_B1E, frames_BFSE[:, :, 1:].transpose(1, 2).flatten(1, 2)], dim=1)
