"""A decoder graph lowered to GroupQueryAttention, for every step that the standard graph takes.

That node, on the CPU, takes several new positions of several rows only where all caches are empty. Such a step of rows
that are further on is run row by row: each on a view of its own part of the caches, so that nothing is copied.

Source: ONNX Runtime 1.31, "batch_size must be 1 when sequence_length > 1 and past context is given".
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from attendant.signature import GraphSignature
from serving.runtime.base import Array, Buffer
from serving.runtime.ort.runner import OrtBuffer, OrtRunner


class RowByRow:
    """A runner of one lowered decoder graph."""

    def __init__(self, runner: OrtRunner) -> None:
        self._runner = runner

    @property
    def signature(self) -> GraphSignature:
        """What goes in and what comes out."""
        return self._runner.signature

    def allocate(self, name: str, sizes: Mapping[str, int]) -> OrtBuffer:
        """A zeroed buffer for the input of that name."""
        return self._runner.allocate(name, sizes)

    def run(self, feeds: Mapping[str, Array | Buffer]) -> dict[str, Buffer]:
        """Run the graph once; see :class:`serving.runtime.base.Runner`."""
        if not _is_too_much_at_once(feeds):
            return self._runner.run(feeds)
        rows = [self._runner.run(_row(feeds, row)) for row in range(len(_array(feeds["start"])))]
        aliases = self.signature.aliases
        return {
            spec.name: _given(feeds[aliases[spec.name]])
            if spec.name in aliases
            else OrtBuffer.over(np.concatenate([row[spec.name].numpy() for row in rows]))
            for spec in self.signature.outputs
        }


def _is_too_much_at_once(feeds: Mapping[str, Array | Buffer]) -> bool:
    if "token_ids" not in feeds or "start" not in feeds:
        return False  # which the runner tells
    shape = _array(feeds["token_ids"]).shape
    return len(shape) == 2 and min(shape) > 1 and bool(_array(feeds["start"]).any())


def _row(feeds: Mapping[str, Array | Buffer], row: int) -> dict[str, Array | Buffer]:
    one: dict[str, Array | Buffer] = {}
    for name, feed in feeds.items():
        part = _array(feed)[row : row + 1]
        one[name] = part if isinstance(feed, np.ndarray) else OrtBuffer.over(part)
    attended = int(_array(feeds["start"])[row]) + _array(feeds["token_ids"]).shape[1]
    return {**one, "self_mask": np.ascontiguousarray(_array(one["self_mask"])[..., :attended])}


def _given(feed: Array | Buffer) -> Buffer:
    assert not isinstance(feed, np.ndarray)  # the runner has refused it
    return feed


def _array(feed: Array | Buffer) -> Array:
    return feed if isinstance(feed, np.ndarray) else feed.numpy()
