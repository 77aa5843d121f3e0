"""Drive a decoder graph over its state: prefill, single steps, or any split between.

The state of a graph is what its signature aliases: keys and values of a Transformer, the state of an RNN. The rest
follows from names. A memory that is an input of the graph is fed at every step; a memory ``<stem>`` for which the graph
has an aliased input ``<stem>_in`` is that buffer's first content; ``start``, ``self_mask`` and ``scored`` are fed
to graphs that have them.

Legend: B batch, T new positions, A attended positions, M capacity.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from attendant.errors import InputError
from serving.runtime.base import Array, Buffer, Runner

_MASK, _SCORED = "self_mask", "scored"
_CAPACITY = 2  # of a cache [B, G, M, D]
MOVING = frozenset({"token_ids", "start", _MASK, _SCORED})
"""The inputs that are new at every step."""


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
    """A batch of sequences being decoded, and buffers that are written in place.

    Attributes:
        caches: input name → the buffer of the state.
    """

    def __init__(self, runner: Runner, rows: int, memories: Mapping[str, Array | Buffer] | None = None) -> None:
        """Allocate the graph's state.

        Args:
            runner: the decoder graph.
            rows: B.
            memories: of the source: what an encoder graph returned, and the source's mask.
        """
        signature, given = runner.signature, memories or {}
        caches = {name: runner.allocate(name, {"batch": rows}) for name in signature.aliases.values()}
        for name, buffer in caches.items():
            first = given.get(name.removesuffix("_in"))
            if first is not None:
                buffer.write(first if isinstance(first, np.ndarray) else first.numpy())
        self._keep(runner, caches, given)

    @classmethod
    def over(
        cls, runner: Runner, caches: Mapping[str, Buffer], memories: Mapping[str, Array | Buffer]
    ) -> CachedDecoder:
        """A decoder of what another owner's buffers hold; nothing is allocated or copied.

        Args:
            runner: the decoder graph.
            caches: a buffer for each aliased input.
            memories: of the source, as far as the graph takes any.
        """
        decoder = cls.__new__(cls)
        decoder._keep(runner, dict(caches), memories)
        return decoder

    def _keep(self, runner: Runner, caches: dict[str, Buffer], memories: Mapping[str, Array | Buffer]) -> None:
        self.caches = caches
        self._runner = runner
        self._inputs = {spec.name: spec for spec in runner.signature.inputs}
        self._fixed = {name: value for name, value in memories.items() if name in self._inputs}

    @property
    def capacity(self) -> int | None:
        """M, how many positions the cache holds; none where the state does not grow."""
        if _MASK not in self._inputs:
            return None
        return int(self._inputs[next(iter(self.caches))].axes[_CAPACITY])

    def step(self, token_ids: Array, start: Array, scored: Array | None = None) -> dict[str, Array]:
        """Score new tokens and store them.

        Args:
            token_ids: int64 ``[B, T]``.
            start: int64 ``[B]``, the position of each row's first new token.
            scored: int64 ``[B, L]``, which of the new tokens get logits; all if not given.

        Returns:
            Every output that is no state: ``logits`` ``[B, L, V]``, and what else the graph shows.

        Raises:
            InputError: the cache has no room for them.
        """
        moving = {"token_ids": token_ids}
        if _MASK in self._inputs:
            steps = token_ids.shape[1]
            attended, capacity = int(start.max()) + steps, self.capacity
            if capacity is not None and attended > capacity:
                raise InputError(
                    f"at most {capacity} positions, the cache's capacity", str(attended), "ask for fewer tokens"
                )
            moving |= {"start": start, _MASK: self_mask(start, steps, attended)}
        if _SCORED in self._inputs:
            every = np.arange(token_ids.shape[1])[None].repeat(len(token_ids), axis=0)
            moving[_SCORED] = every if scored is None else scored
        outputs = self._runner.run({**moving, **self._fixed, **self.caches})
        aliases = self._runner.signature.aliases
        return {name: buffer.numpy() for name, buffer in outputs.items() if name not in aliases}
