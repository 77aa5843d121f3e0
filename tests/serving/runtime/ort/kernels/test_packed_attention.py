"""Attention of positions to each other beside float64: every grouping, length and mask; and what is refused."""

import numpy as np
import pytest
from onnx import TensorProto

from serving.runtime.ort.kernels.library import kernels
from tests.serving.runtime.ort.kernels.operators import session_of

pytestmark = [
    pytest.mark.skipif(kernels() is None, reason="needs an x86 processor with AVX2, and a C compiler"),
    pytest.mark.usefixtures("vectors"),
]


class Attention:
    """The operator, and what it should compute."""

    def __init__(self, heads, groups, size, threads=2, *, masked=False):
        self.heads, self.groups, self.size = heads, groups, size
        inputs = {"qkv": (TensorProto.FLOAT, ["b", "t", "w"])}
        if masked:
            inputs["seen"] = (TensorProto.BOOL, ["m", "h", "p", "k"])
        outputs = {"y": (TensorProto.FLOAT, ["b", "t", "y"])}
        attributes = {"heads": heads, "groups": groups, "scale": size**-0.5}
        self.session = session_of("PackedAttention", inputs, outputs, [], threads, **attributes)

    def __call__(self, qkv, seen=None):
        return self.session.run(None, {"qkv": qkv} | ({} if seen is None else {"seen": seen}))[0]

    def random(self, rows, positions):
        shape = (rows, positions, (self.heads + 2 * self.groups) * self.size)
        return 2 * np.random.default_rng(rows + positions).standard_normal(shape).astype(np.float32)

    def expected(self, qkv, seen=None):
        rows, positions = qkv.shape[:2]
        split = qkv.astype(np.float64).reshape(rows, positions, -1, self.size)
        queries, keys, values = np.split(split, [self.heads, self.heads + self.groups], 2)
        keys, values = (part.repeat(self.heads // self.groups, 2) for part in (keys, values))
        scores = self.size**-0.5 * np.einsum("bthd,bshd->bhts", queries, keys)
        if seen is not None:
            scores = np.where(seen, scores, -np.inf)
        weights = np.exp(scores - np.maximum(scores.max(-1, keepdims=True), -1e300))
        weights /= np.maximum(weights.sum(-1, keepdims=True), 1e-300)
        return np.einsum("bhts,bshd->bthd", weights, values).reshape(rows, positions, -1)


@pytest.mark.parametrize(
    ("heads", "groups", "size"), [(8, 8, 64), (3, 1, 32), (4, 2, 96), (2, 2, 16), (1, 1, 512), (6, 3, 160)]
)
@pytest.mark.parametrize(("rows", "positions"), [(1, 1), (3, 13), (2, 97), (1, 600)])
@pytest.mark.parametrize("mask", [None, "keys of all", "keys of each", "pairs"])
def test_it_attends_as_float64_does(heads, groups, size, rows, positions, mask):
    attention = Attention(heads, groups, size, masked=mask is not None)
    qkv, seen = attention.random(rows, positions), None
    if mask:
        sizes = {"keys of all": (1, 1), "keys of each": (rows, 1), "pairs": (rows, positions)}[mask]
        seen = np.random.default_rng(0).random((sizes[0], 1, sizes[1], positions)) < 0.6
        seen[..., -1] = True
    expected = attention.expected(qkv, seen)
    np.testing.assert_allclose(attention(qkv, seen), expected, rtol=0, atol=5e-6 * np.abs(expected).max())


@pytest.mark.parametrize("threads", [1, 2])
def test_a_row_is_the_same_to_the_bit_alone_and_behind_padding(threads):
    attention = Attention(4, 2, 64, threads, masked=True)
    qkv, lengths = attention.random(3, 300), np.array([300, 41, 261])
    seen = np.arange(300) < lengths[:, None]
    together = attention(qkv, seen[:, None, None])
    for row, length in enumerate(lengths):
        alone = attention(qkv[row : row + 1, :length].copy(), seen[row : row + 1, None, None, :length].copy())
        np.testing.assert_array_equal(together[row, :length], alone[0])


def test_a_position_that_sees_nothing_is_zero():
    attention = Attention(2, 2, 32, masked=True)
    seen = np.ones((1, 1, 300, 300), bool)
    seen[0, 0, 7] = False
    seen[0, 0, 8, :256] = False  # nothing but the second block
    qkv = attention.random(1, 300)
    found, expected = attention(qkv, seen), attention.expected(qkv, seen)
    assert not found[0, 7].any()
    np.testing.assert_allclose(found, expected, rtol=0, atol=5e-6 * np.abs(expected).max())


@pytest.mark.parametrize("odd", [np.nan, np.inf])
def test_what_is_no_number_stays_none_in_its_row_alone(odd):
    attention = Attention(4, 4, 64)
    qkv = attention.random(3, 20)
    quiet = attention(qkv)
    qkv[1, 5, :256] = odd
    found = attention(qkv)
    assert not np.isfinite(found[1, 5]).any()
    found[1, 5] = quiet[1, 5]
    np.testing.assert_array_equal(found, quiet)


@pytest.mark.parametrize("size", [1e3, 1e18])
def test_the_largest_scores_take_all_of_the_weight(size):
    attention = Attention(2, 1, 64)
    qkv = attention.random(2, 40)
    qkv[..., :128] *= size
    expected = attention.expected(qkv)
    np.testing.assert_allclose(attention(qkv), expected, rtol=0, atol=1e-3 * np.abs(expected).max())


def test_no_rows_and_no_positions_have_no_answers():
    attention = Attention(2, 1, 64)
    assert attention(attention.random(0, 5)).shape == (0, 5, 128)
    assert attention(attention.random(2, 0)).shape == (2, 0, 128)


@pytest.mark.parametrize("sizes", [(3, 1, 1, 9), (2, 2, 1, 9), (2, 1, 3, 9), (2, 1, 9, 8), (2, 9)])
def test_a_mask_that_would_be_read_elsewhere_is_refused(sizes):
    attention = Attention(2, 2, 32, masked=True)
    with pytest.raises(Exception, match=r"alike in all heads|Invalid rank"):
        attention(attention.random(2, 9), np.ones(sizes, bool))


@pytest.mark.parametrize(
    ("width", "message"),
    [(4 * 24, "by sixteens"), (4 * 528, "by sixteens"), (4 * 16 + 2, "beside each other"), (0, "heads of")],
)
def test_heads_of_no_whole_vectors_are_refused(width, message):
    with pytest.raises(Exception, match=message):
        Attention(2, 1, 1)(np.zeros((1, 3, width), np.float32))


@pytest.mark.parametrize(("heads", "groups"), [(0, 1), (3, 2), (65, 1), (1, 0), (-2, 1), (2**62, 2**62)])
def test_heads_that_are_no_groups_are_refused_as_a_graph_is_loaded(heads, groups):
    with pytest.raises(Exception, match="heads"):
        Attention(heads, groups, 64)
