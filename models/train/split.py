"""A split that is the same on every machine: the hash of a thing's name decides."""

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def hash_order(names: Sequence[str]) -> list[str]:
    """The names in the order of their SHA-256: as good as random, and no generator's business."""
    return sorted(names, key=lambda name: hashlib.sha256(name.encode()).digest())


def hash_share(name: str) -> float:
    """Where the SHA-256 of a name falls, from 0 to 1: whatever other names there are, a name stays on its side."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:6]) / 2**48


def stratified_split(labels: NDArray[np.int64], held_out: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Divide examples so that each class gives the same share of its own.

    Args:
        labels: the class of each example.
        held_out: how many to hold out.

    Returns:
        The positions of the others, and of those held out; both ascending.
    """
    names = [f"example {position}" for position in range(len(labels))]
    place = {name: rank for rank, name in enumerate(hash_order(names))}
    hashed_rank = np.array([place[name] for name in names])
    share = np.empty(len(labels))
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        share[members[np.argsort(hashed_rank[members])]] = (np.arange(len(members)) + 0.5) / len(members)
    order = np.lexsort((hashed_rank, share))
    return np.sort(order[held_out:]), np.sort(order[:held_out])
