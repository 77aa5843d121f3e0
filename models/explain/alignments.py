"""Which tokens of the source each token of an answer looks at.

Legend: B batch, L layers, H heads, S source positions, T target positions.
Source: Bahdanau, Cho and Bengio 2015, figure 3 (one alignment); Vaswani et al. 2017, section 3.2.3 (one for each layer
and head).
"""

import torch
from torch import Tensor, nn

from attendant.config import require
from models.explain.observe import observe
from models.families.rnn_seq2seq import RecurrentSeq2Seq


@torch.no_grad()
def alignments(model: nn.Module, source_ids: Tensor, source_mask: Tensor, target_ids: Tensor) -> Tensor:
    """The weights by which each target position reads the source.

    Args:
        model: an encoder-decoder, in evaluation mode.
        source_ids: int64 ``[B, S]``.
        source_mask: bool ``[B, S]``.
        target_ids: int64 ``[B, T]``, shifted right: position t is what is known when token t is chosen.

    Returns:
        ``[B, L, H, T, S]``; a recurrent decoder has one layer and one head.

    Raises:
        ConfigError: the model has no attention to the source.
    """
    layers: list[Tensor] = []
    if isinstance(model, RecurrentSeq2Seq):
        encoded = model.encode(source_ids, source_mask)
        weights_BTS = model.step(target_ids, encoded.states, encoded.memory, source_mask).alignments
        layers = [] if weights_BTS is None else [weights_BTS[:, None]]
    else:
        with observe(model, inside="cross_attention") as maps:
            model(source_ids, source_mask, target_ids)
        layers = [one for calls in maps.values() for one in calls]
    require(len(layers) > 0, "a model that attends to its source", type(model).__name__)
    return torch.stack(layers, dim=1)
