"""Rollout from its formulas, one number after another in NumPy."""

import numpy as np

FUSE = {"mean": np.mean, "min": np.min, "max": np.max}


def rollout_by_loops(layers, fuse, discard):
    """One image: ``layers`` are ``[H, S, S]``, ``fuse`` makes one number of H."""
    size = layers[0].shape[-1]
    rolled = np.eye(size)
    for layer in layers:
        fused = np.array([[fuse(layer[:, i, j]) for j in range(size)] for i in range(size)])
        order = sorted((fused[i, j], i, j) for i in range(size) for j in range(size))
        for _, i, j in order[: int(discard * size * size)]:
            if j != 0:
                fused[i, j] = 0.0
        for i in range(size):
            fused[i, i] += 1.0
            fused[i] /= fused[i].sum()
        rolled = np.array([[row @ rolled[:, j] for j in range(size)] for row in fused])
    return rolled
