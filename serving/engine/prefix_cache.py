"""Keys and values of prompts seen before, in blocks: a prompt that begins as an earlier one did is not computed again.

A block's key is a hash of its tokens and of the key of the block before it, so that equal keys mean equal prefixes.
Only for decoders without a source: with one, keys and values depend on more than the tokens before them.

Legend: G key and value heads, P positions of a block, D head size.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile

import numpy as np

from serving.runtime.base import Array

BLOCK = 32
Block = list[Array]
"""For each cache of the decoder ``[G, P, D]``."""


class PrefixCache:
    """Blocks of keys and values, the least recently used dropped first.

    Attributes:
        nbytes: held now.
    """

    def __init__(self, most_bytes: int) -> None:
        """Begin empty.

        Args:
            most_bytes: to hold.
        """
        self._most_bytes = most_bytes
        self._blocks: OrderedDict[bytes, Block] = OrderedDict()
        self.nbytes = 0

    def match(self, tokens: Sequence[int]) -> list[Block]:
        """The blocks that are known of the beginning of a prompt, in order."""
        known = list(takewhile(self._blocks.__contains__, (key for key, _ in _keys(tokens))))
        for key in reversed(known):
            self._blocks.move_to_end(key)
        return [self._blocks[key] for key in known]

    def store(self, tokens: Sequence[int], read: Callable[[int, int], Block]) -> None:
        """Keep the whole blocks of a prompt.

        Args:
            tokens: of the prompt.
            read: copies what the cache holds of the positions from … to (exclusive).
        """
        # A block is of no use without those before it: the last are the first to be dropped.
        for key, begin in reversed(list(_keys(tokens))):
            if key in self._blocks:
                self._blocks.move_to_end(key)
            else:
                self._add(key, read(begin, begin + BLOCK))

    def _add(self, key: bytes, block: Block) -> None:
        size = sum(array.nbytes for array in block)
        if size > self._most_bytes:
            return
        self._blocks[key] = block
        self.nbytes += size
        while self.nbytes > self._most_bytes:
            _, oldest = self._blocks.popitem(last=False)
            self.nbytes -= sum(array.nbytes for array in oldest)


def _keys(tokens: Sequence[int]) -> Iterator[tuple[bytes, int]]:
    key = b""
    for begin in range(0, len(tokens) - BLOCK + 1, BLOCK):
        ids = np.array(tokens[begin : begin + BLOCK], dtype=np.int64)
        key = hashlib.blake2b(key + ids.tobytes(), digest_size=16).digest()
        yield key, begin
