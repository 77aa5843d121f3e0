"""Token embeddings, scaled on the way in and used again, unscaled, as the output projection.

Legend: B batch, S positions, E model width, V vocabulary.
Source: Vaswani et al. 2017, section 3.4; Press and Wolf 2017, "Using the Output Embedding to Improve Language Models".
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class TiedEmbedding(nn.Module):
    """One matrix ``[V, E]`` for every token that goes in and, where nothing else is, for the logits.

    Args:
        vocabulary: V.
        width: E.
        scale: of what goes in; √E, as in the paper, if not given.
    """

    def __init__(self, vocabulary: int, width: int, scale: float | None = None) -> None:
        super().__init__()
        self.scale = width**0.5 if scale is None else scale
        self.weight = nn.Parameter(torch.randn(vocabulary, width) * width**-0.5)

    def forward(self, token_ids: Tensor) -> Tensor:
        """Vectors of int64 token ids ``[B, S]``, scaled: ``[B, S, E]``."""
        vectors_BSE = F.embedding(token_ids, self.weight)
        return vectors_BSE if self.scale == 1.0 else vectors_BSE * self.scale

    def logits(self, hidden: Tensor) -> Tensor:
        """Scores ``[B, S, V]`` of hidden vectors ``[B, S, E]``."""
        return F.linear(hidden, self.weight)
