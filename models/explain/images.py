"""Which patches of an image a classifier's answer is made of.

    map = row of the class token in the rollout, at the patches, as a grid

Legend: B batch, H heads, S positions (tokens in front, then patches), K classes.
Source: see :mod:`models.explain.rollout`.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from attendant.config import require
from models.explain.observe import observe
from models.explain.rollout import Fusion, gradient_rollout, rollout
from models.families.tnt import TNT

CLASS_TOKEN = 0


def attention_maps(model: nn.Module, pixels: Tensor) -> list[Tensor]:
    """Every layer's weights ``[B, H, S, S]`` for images ``[B, C, height, width]``, the first layer first.

    Of a TNT they are those among patches, not those among the words of a patch.
    """
    with torch.no_grad(), observe(model, among_patches(model)) as maps:
        model(pixels)
    return [one for calls in maps.values() for one in calls]


def class_rollout(model: nn.Module, pixels: Tensor, fusion: Fusion = "mean", discard: float = 0.0) -> Tensor:
    """Where the class token's final vector comes from: ``[B, rows, columns]`` of patches.

    Raises:
        ConfigError: the layers are not all of self-attention over the same tokens, or an argument means nothing.
    """
    return patch_map(rollout(_same_tokens(attention_maps(model, pixels)), fusion, discard))


def class_gradient_rollout(model: nn.Module, pixels: Tensor, classes: Tensor, discard: float = 0.0) -> Tensor:
    """What speaks for a class: ``[B, rows, columns]`` of patches.

    Args:
        model: of images, in evaluation mode; its parameters need no gradients.
        pixels: ``[B, C, height, width]``.
        classes: int64 ``[B]``.
        discard: share of each layer's weights, the smallest ones, that is set to zero.

    Raises:
        ConfigError: as :func:`class_rollout`.
    """
    with torch.enable_grad(), observe(model, among_patches(model)) as maps:
        logits_BK = model(pixels.detach().clone().requires_grad_())
    weights = _same_tokens([one for calls in maps.values() for one in calls])
    chosen = logits_BK.gather(1, classes[:, None]).sum()
    gradients = torch.autograd.grad(chosen, list(weights))
    return patch_map(gradient_rollout([one.detach() for one in weights], gradients, discard))


def patch_map(rolled: Tensor) -> Tensor:
    """The class token's row of a rollout ``[B, S, S]`` at the patches, which fill a square: ``[B, rows, columns]``."""
    side = math.isqrt(rolled.shape[-1] - 1)
    return torch.unflatten(rolled[:, CLASS_TOKEN, -side * side :], 1, (side, side))


def among_patches(model: nn.Module) -> str:
    """What the path of a layer has in it, if the layer mixes patches: for :func:`models.explain.observe.observe`."""
    return "outer" if isinstance(model, TNT) else ""


def _same_tokens(weights: Sequence[Tensor]) -> Sequence[Tensor]:
    shapes = {tuple(one.shape) for one in weights}
    square = len(shapes) == 1 and all(shape[-1] == shape[-2] for shape in shapes)
    require(square, "layers of self-attention over the same tokens", sorted(shapes)[:3], "ask for the layers' own maps")
    return weights
