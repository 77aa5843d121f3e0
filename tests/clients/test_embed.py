import numpy as np

from clients.embed import mean


def test_the_mean_is_over_the_tokens_and_not_over_padding():
    hidden = np.array([[[1.0, 2.0], [3.0, 6.0]], [[5.0, 7.0], [99.0, -99.0]]], dtype=np.float32)
    mask = np.array([[True, True], [True, False]])
    pooled = mean(hidden, mask)
    assert pooled.dtype == np.float32
    assert pooled.tolist() == [[2.0, 4.0], [5.0, 7.0]]
