"""Additive attention: a feed-forward network scores how well a state fits each position of the source.

    e_j = vᵀ tanh(W s + U h_j)        w = softmax(e) over the positions that are no padding        c = Σ_j w_j h_j

Legend: B batch, S source positions, Q width of a state, C width of an annotation, A width of the alignment network.
Source: Bahdanau, Cho and Bengio 2015, "Neural Machine Translation by Jointly Learning to Align and Translate",
section 3.1 and appendix A.1.2, without biases, as printed there.
"""

import torch
from torch import Tensor, nn


class AdditiveAttention(nn.Module):
    """The alignment model a(s, h) and the context that it chooses.

    Args:
        state_width: Q.
        annotation_width: C.
        width: A.
        key: from annotations to ``[B, S, A]``; the matrix U if not given.
    """

    def __init__(self, state_width: int, annotation_width: int, width: int, key: nn.Module | None = None) -> None:
        super().__init__()
        self.query = nn.Linear(state_width, width, bias=False)
        self.key = nn.Linear(annotation_width, width, bias=False) if key is None else key
        self.score = nn.Linear(width, 1, bias=False)

    def keys(self, annotations: Tensor) -> Tensor:
        """U h_j of annotations ``[B, S, C]``, which no state changes: ``[B, S, A]``."""
        keys_BSA: Tensor = self.key(annotations)
        return keys_BSA

    def forward(self, state: Tensor, annotations: Tensor, keys: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Attend once.

        Args:
            state: s, ``[B, Q]``.
            annotations: h, ``[B, S, C]``.
            keys: what :meth:`keys` makes of them, ``[B, S, A]``.
            mask: bool ``[B, S]``, false at padding; no padding if None.

        Returns:
            The context ``[B, C]`` and the weights ``[B, S]``; both are zero for a row of padding alone.
        """
        scores_BS = self.score(torch.tanh(self.query(state)[:, None] + keys))[..., 0]
        if mask is None:
            return self._context(annotations, scores_BS.softmax(1))
        # A finite lowest score, because a softmax over −∞ alone is NaN.
        hidden_BS = scores_BS.masked_fill(~mask, torch.finfo(scores_BS.dtype).min)
        return self._context(annotations, hidden_BS.softmax(1).masked_fill(~mask, 0))

    def _context(self, annotations_BSC: Tensor, weights_BS: Tensor) -> tuple[Tensor, Tensor]:
        return (weights_BS[:, None] @ annotations_BSC)[:, 0], weights_BS
