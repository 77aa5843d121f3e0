"""How much of each input every output is made of, if attention were all that mixes them.

    A_l = fuse_h(W_l)        Â_l = rows of (A_l + I) scaled to one        R_l = Â_l R_{l−1}        R_0 = I
    class-specific: A_l = mean_h(max(0, W_l ⊙ ∂y_c / ∂W_l))

The identity stands for the residual connection. Without the scaling the rows would sum to 2^L.

Legend: B batch, H heads, S positions, L layers.
Source: Abnar and Zuidema 2020, "Quantifying Attention Flow in Transformers", section 3 (rollout); Gildenblat 2020,
"Exploring Explainability for Vision Transformers" (fusion by minimum or maximum, discarded weights); Chefer et al.
2021, "Transformer Interpretability Beyond Attention Visualization", section 3.2 (gradients, here of attention alone).
"""

from collections.abc import Callable, Sequence
from typing import Literal, get_args

import torch
from torch import Tensor

from attendant.config import require

Fusion = Literal["mean", "min", "max"]
_FUSE: dict[Fusion, Callable[[Tensor], Tensor]] = {
    "mean": lambda weights_BHSS: weights_BHSS.mean(1),
    "min": lambda weights_BHSS: weights_BHSS.amin(1),
    "max": lambda weights_BHSS: weights_BHSS.amax(1),
}


def rollout(weights: Sequence[Tensor], fusion: Fusion = "mean", discard: float = 0.0) -> Tensor:
    """Multiply the layers of self-attention.

    Args:
        weights: of each layer, the first one first, ``[B, H, S, S]``.
        fusion: of the heads.
        discard: share of each layer's fused weights, the smallest ones, that are set to zero; never those that look
            at the first position, the class token.

    Returns:
        ``[B, S, S]``, each row the shares of the inputs in one output; they sum to one.

    Raises:
        ConfigError: there is no layer or no such fusion, or the share is not from 0 to below 1.
    """
    require(fusion in get_args(Fusion), f"a fusion of {get_args(Fusion)}", repr(fusion))
    return _product([_without_smallest(_FUSE[fusion](one), discard) for one in weights])


def gradient_rollout(weights: Sequence[Tensor], gradients: Sequence[Tensor], discard: float = 0.0) -> Tensor:
    """The rollout of what speaks for one class.

    Args:
        weights: as in :func:`rollout`.
        gradients: of the class's logit by the weights, of the same shapes.
        discard: as in :func:`rollout`.

    Returns:
        ``[B, S, S]``, as :func:`rollout`.

    Raises:
        ConfigError: as :func:`rollout`.
    """
    relevant = [(one * gradient).clamp(min=0).mean(1) for one, gradient in zip(weights, gradients, strict=True)]
    return _product([_without_smallest(one, discard) for one in relevant])


def _product(layers_BSS: Sequence[Tensor]) -> Tensor:
    require(len(layers_BSS) > 0, "at least one layer of attention", len(layers_BSS))
    identity_SS = torch.eye(layers_BSS[0].shape[-1], dtype=layers_BSS[0].dtype, device=layers_BSS[0].device)
    rolled_BSS = identity_SS.expand_as(layers_BSS[0])
    for layer_BSS in layers_BSS:
        mixed_BSS = layer_BSS + identity_SS
        rolled_BSS = mixed_BSS / mixed_BSS.sum(-1, keepdim=True) @ rolled_BSS
    return rolled_BSS


def _without_smallest(fused_BSS: Tensor, discard: float) -> Tensor:
    require(0 <= discard < 1, "a share to discard from 0 to below 1", discard)
    flat_BN = fused_BSS.flatten(1)
    count = int(discard * flat_BN.shape[1])
    if count == 0:
        return fused_BSS
    smallest_Bn = flat_BN.topk(count, largest=False).indices
    kept_BSS = flat_BN.scatter(1, smallest_Bn, 0.0).view_as(fused_BSS)
    return torch.cat([fused_BSS[..., :1], kept_BSS[..., 1:]], dim=-1)
