"""The decoder's memory: keys and values of past positions in a tensor of fixed capacity, written in place.

    present[b, g, start[b] + i, :] = new[b, g, i, :]        for 0 ≤ i < S

Legend: B batch, G key and value heads, S new positions, A attended positions, M capacity, D head size.
Source: ONNX operator specification, TensorScatter version 24 (mode ``linear``, axis −2).

The operation is one custom operator, so that the exporter can write it as the one ONNX node which runtimes execute
in place. In PyTorch it returns a new tensor, because a traced graph must be free of side effects; what runs the module
itself gives its decoders another writer (:func:`write_in_place`).
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

KeysValues = tuple[Tensor, Tensor]
Remember = Callable[[Tensor, Tensor], KeysValues]
"""From the keys and values of new positions to all those that the new positions attend to."""


@torch.library.custom_op("attendant::tensor_scatter", mutates_args=())
def tensor_scatter(cache: Tensor, new: Tensor, start: Tensor) -> Tensor:
    """Write new entries behind those that a cache already holds.

    Args:
        cache: ``[B, G, M, D]``.
        new: ``[B, G, S, D]``, of the cache's type.
        start: int64 ``[B]``, the first position that each row writes; ``start + S ≤ M``.

    Returns:
        The cache with the new entries in their places, ``[B, G, M, D]``.
    """
    return cache.scatter(2, _places(new, start), new)


@tensor_scatter.register_fake
def _(cache: Tensor, new: Tensor, start: Tensor) -> Tensor:
    return torch.empty_like(cache)


TENSOR_SCATTER: object = torch.ops.attendant.tensor_scatter.default
"""What stands in a traced graph, for the exporter's table of translations."""


def remember_nothing(keys: Tensor, values: Tensor) -> KeysValues:
    """The memory of a pass without a cache: new positions attend to themselves."""
    return keys, values


class CacheWriter:
    """The memory of one block during one pass: writes what is new, and gives back what is to be attended to.

    Attributes:
        present: the cache ``[B, G, M, D]`` of keys and of values after the pass.
        start: ``[B]``, each row's first new position.
    """

    def __init__(self, cache: KeysValues, start: Tensor, attended: int) -> None:
        """Take a block's cache, each row's first new position ``[B]``, and how many positions A are attended to."""
        self.present = cache
        self.start = start
        self._attended = attended

    def __call__(self, keys: Tensor, values: Tensor) -> KeysValues:
        """Write ``[B, G, S, D]`` each; the first A positions of the cache, ``[B, G, A, D]`` each."""
        past_keys, past_values = self.present
        self.present = (tensor_scatter(past_keys, keys, self.start), tensor_scatter(past_values, values, self.start))
        return self.present[0][:, :, : self._attended], self.present[1][:, :, : self._attended]


class InPlaceWriter(CacheWriter):
    """One that writes into the very tensors it is given, for passes that nothing traces."""

    def __call__(self, keys: Tensor, values: Tensor) -> KeysValues:
        """As :class:`CacheWriter`; only the new positions are touched."""
        index_BGSD = _places(keys, self.start)
        for cache, new in zip(self.present, (keys, values), strict=True):
            cache.scatter_(2, index_BGSD, new)
        return self.present[0][:, :, : self._attended], self.present[1][:, :, : self._attended]


class Remembering(nn.Module):
    """A decoder that keeps keys and values from call to call.

    Attributes:
        writer: of a block's cache.
    """

    writer: type[CacheWriter] = CacheWriter

    def cache_writers(self, caches: Sequence[KeysValues], start: Tensor, attended: int) -> list[CacheWriter]:
        """One writer a block."""
        return [self.writer(cache, start, attended) for cache in caches]


def write_in_place(module: nn.Module) -> None:
    """Let every decoder inside a module write into the caches that it is given; such a module cannot be exported."""
    for part in module.modules():
        if isinstance(part, Remembering):
            part.writer = InPlaceWriter


def take_positions(hidden: Tensor, positions: Tensor) -> Tensor:
    """Of ``[B, S, E]`` the positions int64 ``[B, L]`` of each row: ``[B, L, E]``."""
    return hidden.gather(1, positions[:, :, None].expand(-1, -1, hidden.shape[2]))


def _places(new_BGSD: Tensor, start_B: Tensor) -> Tensor:
    positions_BS = start_B[:, None]
    if new_BGSD.shape[2] != 1:  # of a single step, start itself is the index: a GPU is spared two kernels a block
        positions_BS = positions_BS + torch.arange(new_BGSD.shape[2], device=new_BGSD.device)
    return positions_BS[:, None, :, None].expand_as(new_BGSD)
