"""The deep output: one layer between what a decoder knows and its scores of the words, by maxout or by a sum.

    maxout   t̃ = U s + V E y + C c        t_k = max(t̃_{2k−1}, t̃_{2k})        logits = W t
    sum      t = tanh(E y + U s + C c)                                       logits = W t

Legend: B batch, T target positions, Q width of a state, E width of an embedding, C width of a context, L maxout units,
V vocabulary.
Source: Bahdanau, Cho and Bengio 2015, appendix A.2.2; Goodfellow et al. 2013, "Maxout Networks"; Pascanu et al. 2014.
The appendix prints s_{i−1} in t̃_i, and conditions y_i on s_i, as equation 4 does. Here s is s_i: a step overwrites the
state in place, so that nothing may read s_{i−1} beside the cell and the attention that make s_i. The sum is that of Xu
et al. 2015, "Show, Attend and Tell", equation 7, with the tanh of its authors' code (arctic-captions, ``capgen.py``).
"""

import torch
from torch import Tensor, nn


class DeepOutput(nn.Module):
    """Scores of the next word.

    Args:
        input_width: Q + E + C.
        width: L.
        vocabulary: V.
    """

    def __init__(self, input_width: int, width: int, vocabulary: int) -> None:
        super().__init__()
        self.width = width
        self.hidden = nn.Linear(input_width, 2 * width)
        self.output = nn.Linear(width, vocabulary)

    def forward(self, state: Tensor, embedded: Tensor, context: Tensor) -> Tensor:
        """A state ``[B, T, Q]``, the last word ``[B, T, E]`` and the context ``[B, T, C]`` → logits ``[B, T, V]``."""
        pairs_BTL2 = self.hidden(torch.cat([state, embedded, context], dim=2)).unflatten(2, (self.width, 2))
        logits_BTV: Tensor = self.output(pairs_BTL2.amax(3))
        return logits_BTV


class SummedOutput(nn.Module):
    """Scores of the next word, where state and context are projected to the embedding's width and added to it.

    Args:
        input_width: Q + C.
        width: E.
        vocabulary: V.
    """

    def __init__(self, input_width: int, width: int, vocabulary: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(input_width, width)
        self.output = nn.Linear(width, vocabulary)

    def forward(self, state: Tensor, embedded: Tensor, context: Tensor) -> Tensor:
        """A state ``[B, T, Q]``, the last word ``[B, T, E]`` and the context ``[B, T, C]`` → logits ``[B, T, V]``."""
        known_BTE = embedded + self.hidden(torch.cat([state, context], dim=2))
        logits_BTV: Tensor = self.output(torch.tanh(known_BTE))
        return logits_BTV
