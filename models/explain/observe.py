"""Watch what every attention layer of a model mixes its values by.

Legend: B batch, H heads, S query positions, T attended positions.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor, nn

from models.layers.attend import Attend

Maps = dict[str, list[Tensor]]
"""The path of an attention layer in its model → the weights of each of its calls, ``[B, H, S, T]``."""


@contextmanager
def observe(model: nn.Module, inside: str = "", beside: bool = False) -> Iterator[Maps]:
    """Collect attention weights as long as the block lasts; they keep their gradients.

    Args:
        model: any of ours.
        inside: watch only layers whose path has this in it, as ``cross_attention``.
        beside: let them compute what they compute unobserved, and the weights beside it.
    """
    layers = {name: layer for name, layer in model.named_modules() if isinstance(layer, Attend) and inside in name}
    maps: Maps = {name.removesuffix(".attend"): [] for name in layers}
    try:
        for name, layer in layers.items():
            layer.observer = maps[name.removesuffix(".attend")].append
            layer.is_watched_beside = beside
        yield maps
    finally:
        for layer in layers.values():
            layer.observer, layer.is_watched_beside = None, False
