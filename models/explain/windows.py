"""Windowed attention laid over the whole map again.

    received_j = mean over the places i of j's window, and over the heads, of W_ij

Legend: B batch, W windows, H heads, S places of a window, h and w height and width of a map.
Source: Liu et al. 2021, "Swin Transformer", figure 2: no weight leaves its window, so that a map of all windows is the
whole attention of a layer.
"""

import torch
from torch import Tensor, nn

from models.explain.observe import Maps, observe
from models.layers.window_attention import WindowAttention


def received_attention(model: nn.Module, pixels: Tensor) -> dict[str, Tensor]:
    """How much attention each place of a layer's map gets from its window, on average 1 / S.

    Args:
        model: with layers of windowed attention; others are left out.
        pixels: of images, ``[B, C, height, width]``.

    Returns:
        The path of a layer → ``[B, h, w]``; the sides halve from stage to stage.
    """
    with torch.no_grad(), observe(model) as maps:
        model(pixels)
    return received_in(model, maps)


def received_in(model: nn.Module, maps: Maps) -> dict[str, Tensor]:
    """The same of what has been observed of a model: the path of a layer → ``[B, h, w]``."""
    layers = {name: layer for name, layer in model.named_modules() if isinstance(layer, WindowAttention)}
    received: dict[str, Tensor] = {}
    for name, layer in layers.items():
        weights_BWHSS = torch.unflatten(maps[name][0], 1, (layer.windows.count, layer.heads))
        received_BWS = weights_BWHSS.mean((2, 3))
        received[name] = layer.windows.join(received_BWS[..., None])[..., 0]
    return received
