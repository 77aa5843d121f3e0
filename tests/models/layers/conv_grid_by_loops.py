"""A VGG's stages from their formulas, one position of one image at a time, in NumPy."""

import numpy as np


def grid_by_loops(weights, depths, image_CHW):
    """Annotations ``[L, D]`` of one image; the weights are a kernel and a bias for each convolution, in order."""
    features, pairs = image_CHW, list(zip(weights[::2], weights[1::2], strict=True))
    for stage, depth in enumerate(depths):
        features = _pool(features) if stage else features
        for _ in range(depth):
            features = _convolve(features, *pairs.pop(0))
    assert not pairs
    return features.reshape(len(features), -1).T


def _convolve(features, kernel, bias):
    channels, height, width = features.shape
    padded = np.zeros((channels, height + 2, width + 2))
    padded[:, 1:-1, 1:-1] = features
    out = np.zeros((len(kernel), height, width))
    for row, column in np.ndindex(height, width):
        seen = padded[:, row : row + 3, column : column + 3]
        out[:, row, column] = np.maximum(0, (kernel * seen).sum((1, 2, 3)) + bias)
    return out


def _pool(features):
    channels, height, width = features.shape
    out = np.zeros((channels, height // 2, width // 2))
    for row, column in np.ndindex(out.shape[1:]):
        out[:, row, column] = features[:, 2 * row : 2 * row + 2, 2 * column : 2 * column + 2].max((1, 2))
    return out
