"""Drive a decoder graph over its cache: prefill, single steps, or any split between.

Legend: B batch, S source positions, T new positions, A attended positions, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from models.errors import InputError
from models.tensor_names import LOGITS
from serving.runtime.base import Array, Buffer, Runner


def self_mask(start: Array, steps: int, attended: int) -> Array:
    """Which cache positions each new token sees: those written before it, and itself.

    Args:
        start: int64 ``[B]``, how many positions each row's cache holds.
        steps: T.
        attended: A, at least ``max(start) + T``.

    Returns:
        bool ``[B, 1, T, A]``: position ≤ start + step.
    """
    newest_BT = start[:, None] + np.arange(steps)[None]
    mask: Array = np.arange(attended)[None, None, None] <= newest_BT[:, None, :, None]
    return mask


class CachedDecoder:
    """A batch of sources being decoded: their cross-attention memory, and a cache that is written in place."""

    def __init__(self, runner: Runner, crosses: Mapping[str, Array | Buffer], source_mask: Array) -> None:
        """Allocate the cache.

        Args:
            runner: the decoder graph.
            crosses: the encoder graph's outputs, keys and values ``[B, H, S, D]``.
            source_mask: bool ``[B, S]``.
        """
        aliased = runner.signature.aliases.values()
        self._runner = runner
        self._fixed = {"source_mask": source_mask, **crosses}
        self.caches = {name: runner.allocate(name, {"batch": source_mask.shape[0]}) for name in aliased}
        self._capacity = int(next(iter(self.caches.values())).numpy().shape[2])

    def step(self, token_ids: Array, start: Array) -> Array:
        """Score new tokens and remember them.

        Args:
            token_ids: int64 ``[B, T]``.
            start: int64 ``[B]``, the position of each row's first new token.

        Returns:
            Logits ``[B, T, V]``.

        Raises:
            InputError: the cache has no room for them.
        """
        steps = token_ids.shape[1]
        attended = int(start.max()) + steps
        if attended > self._capacity:
            raise InputError(
                f"at most {self._capacity} positions, the cache's capacity",
                str(attended),
                "ask for fewer tokens",
            )
        moving = {"token_ids": token_ids, "start": start, "self_mask": self_mask(start, steps, attended)}
        return self._runner.run({**moving, **self._fixed, **self.caches})[LOGITS].numpy()
