"""Where a captioner looks while it chooses each word.

Legend: B batch, L layers, H heads, T target positions, S tokens of the image.
Source: Xu et al. 2015, "Show, Attend and Tell", figure 3 (one map a word); Liu et al. 2021, "CPTR", section 3.5 (the
cross-attention of the last layer, the mean of its heads).
"""

import math

import torch
from torch import Tensor, nn

from attendant.config import require
from models.explain.observe import observe
from models.families.rnn_captioner import RecurrentCaptioner


@torch.no_grad()
def caption_attention(model: nn.Module, pixels: Tensor, target_ids: Tensor) -> Tensor:
    """The weights by which each target position reads the image.

    Args:
        model: a captioner, in evaluation mode.
        pixels: ``[B, C, height, width]``.
        target_ids: int64 ``[B, T]``, shifted right: position t is what is known when token t is chosen.

    Returns:
        ``[B, L, H, T, S]``; a recurrent decoder has one layer and one head.

    Raises:
        ConfigError: the model has no attention to the image.
    """
    layers: list[Tensor] = []
    if isinstance(model, RecurrentCaptioner):
        memory, states = model.encode(pixels)
        weights_BTS = model.step(target_ids, states, memory).alignments
        layers = [] if weights_BTS is None else [weights_BTS[:, None]]
    else:
        with observe(model, inside="cross_attention") as maps:
            model(pixels, target_ids)
        layers = [one for calls in maps.values() for one in calls]
    require(len(layers) > 0, "a model that attends to its image", type(model).__name__)
    return torch.stack(layers, dim=1)


def word_maps(weights: Tensor) -> Tensor:
    """One map a word: the last layer's mean of heads ``[B, L, H, T, S]`` at the patches, ``[B, T, rows, columns]``."""
    side = math.isqrt(weights.shape[-1])
    return torch.unflatten(weights[:, -1].mean(1)[..., -side * side :], 2, (side, side))
