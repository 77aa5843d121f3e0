"""Attention over a cache beside float64: every type, length and grouping; and what is refused."""

import sys

import numpy as np
import pytest
from onnx import TensorProto, numpy_helper

from serving.runtime.ort.kernels.library import kernels
from tests.serving.runtime.ort.kernels.operators import session_of

pytestmark = [
    pytest.mark.skipif(kernels() is None, reason="needs an x86 processor with AVX2, and a C compiler"),
    pytest.mark.usefixtures("vectors"),
]
module = sys.modules[__name__]
SCALE, KEY_STEP, VALUE_STEP = 0.17, np.float32(0.03), np.float32(0.02)


class Attention:
    """The operator, random tables of turns, and what it should compute."""

    def __init__(self, heads, groups, size, capacity, *, of_integers=False, turned=0, threads=2):
        self.heads, self.groups, self.size, self.capacity = heads, groups, size, capacity
        self.of_integers, self.half = of_integers, turned // 2
        angles = np.random.default_rng(1).uniform(0, 6, (capacity, self.half))
        self.cos, self.sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
        steps = {"key_step": KEY_STEP, "value_step": VALUE_STEP} if of_integers else {}
        tables = {"cos": self.cos, "sin": self.sin} if turned else {}
        constants = [numpy_helper.from_array(np.asarray(array), name) for name, array in {**steps, **tables}.items()]
        cache = TensorProto.INT8 if of_integers else TensorProto.FLOAT, ["b", "g", "m", "d"]
        self.session = session_of(
            "CachedAttentionInt8" if of_integers else "CachedAttention",
            {
                "qkv": (TensorProto.FLOAT, ["b", "t", "w"]),
                "keys": cache,
                "values": cache,
                "newest": (TensorProto.INT32, ["n"]),
            },
            {"y": (TensorProto.FLOAT, ["b", "t", "y"]), "new_keys": cache, "new_values": cache},
            constants,
            threads,
            heads=heads,
            groups=groups,
            turns=int(bool(turned)),
            scale=SCALE,
        )

    def random(self, rows, steps):
        random = np.random.default_rng(rows + steps)
        shape = (rows, self.groups, self.capacity, self.size)
        if self.of_integers:
            keys, values = (random.integers(-128, 128, shape).astype(np.int8) for _ in range(2))
        else:
            keys, values = (random.standard_normal(shape).astype(np.float32) for _ in range(2))
        qkv = random.standard_normal((rows, steps, (self.heads + 2 * self.groups) * self.size)).astype(np.float32)
        newest = random.integers(steps - 1, self.capacity, rows).astype(np.int32)
        newest[0], newest[-1] = self.capacity - 1, steps - 1
        return {"qkv": qkv, "keys": keys, "values": values, "newest": newest}

    def __call__(self, **feeds):
        return self.session.run(None, feeds)

    def turn(self, heads, position):
        turned, half = heads.copy(), self.half
        if half:
            first, second = heads[..., :half], heads[..., half : 2 * half]
            turned[..., :half] = first * self.cos[position] - second * self.sin[position]
            turned[..., half : 2 * half] = second * self.cos[position] + first * self.sin[position]
        return turned

    def expected(self, qkv, keys, values, newest):
        rows, steps = qkv.shape[:2]
        keys, values = keys.copy(), values.copy()
        split = qkv.reshape(rows, steps, -1, self.size)
        found = np.zeros((rows, steps, self.heads, self.size))
        of_keys, of_values = (KEY_STEP, VALUE_STEP) if self.of_integers else (np.float32(1), np.float32(1))
        for row, step in np.ndindex(rows, steps):
            position = newest[row] + 1 - steps + step
            new_keys = self.turn(split[row, step, self.heads : self.heads + self.groups], position)
            new_values = split[row, step, self.heads + self.groups :]
            for cache, new, unit in ((keys, new_keys, of_keys), (values, new_values, of_values)):
                cache[row, :, position] = np.clip(np.rint(new / unit), -128, 127) if self.of_integers else new
            for head in range(self.heads):
                group = head // (self.heads // self.groups)
                seen = keys[row, group, : position + 1] * np.float64(of_keys)
                scores = SCALE * seen @ self.turn(split[row, step, head], position).astype(np.float64)
                weights = np.exp(scores - scores.max())
                read = values[row, group, : position + 1] * np.float64(of_values)
                found[row, step, head] = weights @ read / weights.sum()
        return found.reshape(rows, steps, -1), keys, values


@pytest.mark.parametrize(
    ("heads", "groups", "size", "turned"),
    [(3, 1, 64, 64), (8, 2, 32, 16), (4, 4, 96, 0), (12, 2, 128, 128), (5, 1, 160, 64)],
)
@pytest.mark.parametrize(("rows", "steps", "capacity"), [(1, 1, 1), (3, 1, 700), (2, 5, 40), (2, 19, 300)])
@pytest.mark.parametrize("of_integers", [False, True])
def test_it_attends_and_writes_as_float64_does(heads, groups, size, turned, rows, steps, capacity, of_integers):
    attention = Attention(heads, groups, size, capacity, of_integers=of_integers, turned=turned)
    feeds = attention.random(rows, steps)
    found, expected = attention(**feeds), attention.expected(**feeds)
    bound = (3e-4 if of_integers else 2e-6) * np.abs(expected[0]).max()  # queries have 16 bits there
    np.testing.assert_allclose(found[0], expected[0], rtol=0, atol=bound)
    for cache, wanted in zip(found[1:], expected[1:], strict=True):
        if of_integers:
            assert np.abs(cache.astype(int) - wanted).max() <= 1  # where a turned number lies between two levels
            assert np.mean(cache != wanted) < 1e-4
        else:
            np.testing.assert_allclose(cache, wanted, rtol=0, atol=1e-6)


@pytest.mark.parametrize("of_integers", [False, True])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_position_is_the_same_to_the_bit_alone_and_in_company(of_integers, threads):
    attention = Attention(6, 2, 64, 600, of_integers=of_integers, turned=64, threads=threads)
    feeds = attention.random(3, 11)
    together, *caches = attention(**feeds)
    row, keys, values = 1, feeds["keys"][1:2], feeds["values"][1:2]
    alone = []
    for step in range(11):
        newest = feeds["newest"][row : row + 1] - 10 + step
        one = feeds["qkv"][row : row + 1, step : step + 1]
        answer, keys, values = attention(qkv=one, keys=keys, values=values, newest=newest)
        alone.append(answer[0, 0])
    np.testing.assert_array_equal(together[row], alone)
    for cache, last in zip(caches, (keys, values), strict=True):
        np.testing.assert_array_equal(cache[row], last[0])


def test_what_lies_behind_the_newest_position_is_not_seen():
    attention = Attention(4, 2, 64, 500, turned=64)
    feeds = attention.random(2, 3)
    feeds["newest"][:] = 300
    before = attention(**feeds)[0]
    feeds["keys"][:, :, 301:], feeds["values"][:, :, 301:] = np.nan, np.inf
    np.testing.assert_array_equal(attention(**feeds)[0], before)


@pytest.mark.parametrize("of_integers", [False, True])
@pytest.mark.parametrize("odd", [np.nan, np.inf])
def test_what_is_no_number_stays_none_in_its_row_alone(odd, of_integers):
    attention = Attention(4, 2, 64, 50, of_integers=of_integers)
    feeds = attention.random(3, 1)
    quiet = attention(**feeds)[0]
    feeds["qkv"][1, 0, :256] = odd
    found = attention(**feeds)[0]
    assert not np.isfinite(found[1]).any()
    np.testing.assert_array_equal(found[[0, 2]], quiet[[0, 2]])


@pytest.mark.parametrize("size", [1e3, 1e6])
def test_the_largest_scores_take_all_of_the_weight(size):
    attention = Attention(2, 1, 64, 400)
    feeds = attention.random(2, 1)
    feeds["qkv"][..., :128] *= size
    expected = attention.expected(**feeds)[0]
    np.testing.assert_allclose(attention(**feeds)[0], expected, rtol=0, atol=1e-3 * np.abs(expected).max())


def changed(name, change):
    def apply(feeds):
        feeds[name] = change(feeds[name])

    return apply


HOSTILE = {
    "a position before the first": (changed("newest", lambda n: n * 0 - 1), "within the cache"),
    "too few positions before": (changed("newest", lambda n: n * 0 + 1), "within the cache"),
    "a position behind the cache": (changed("newest", lambda n: n * 0 + 40), "within the cache"),
    "the largest position": (changed("newest", lambda n: np.full_like(n, 2**31 - 1)), "within the cache"),
    "a position too few": (changed("newest", lambda n: n[:-1]), "a newest position a row"),
    "other values than keys": (changed("values", lambda v: v[:, :, :-1].copy()), "of the same shape"),
    "fewer caches than rows": (changed("qkv", lambda q: np.concatenate([q, q])), "caches for all rows"),
    "another width": (changed("qkv", lambda q: q[..., :-64].copy()), "beside each other"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_what_would_be_read_or_written_elsewhere_is_refused(case):
    change, message = HOSTILE[case]
    attention = Attention(4, 2, 64, 40, turned=64)
    feeds = attention.random(3, 3)
    change(feeds)
    with pytest.raises(Exception, match=message):
        attention(**feeds)


def test_tables_that_end_before_the_cache_are_refused():
    attention = Attention(2, 1, 64, 40, turned=64)
    attention.session = session_of(
        "CachedAttention",
        {
            "qkv": (TensorProto.FLOAT, ["b", "t", "w"]),
            "keys": (TensorProto.FLOAT, ["b", "g", "m", "d"]),
            "values": (TensorProto.FLOAT, ["b", "g", "m", "d"]),
            "newest": (TensorProto.INT32, ["n"]),
        },
        {
            "y": (TensorProto.FLOAT, ["b", "t", "y"]),
            "new_keys": (TensorProto.FLOAT, ["b", "g", "m", "d"]),
            "new_values": (TensorProto.FLOAT, ["b", "g", "m", "d"]),
        },
        [
            numpy_helper.from_array(table[:30].copy(), name)
            for name, table in (("c", attention.cos), ("s", attention.sin))
        ],
        heads=2,
        groups=1,
        turns=1,
        scale=1.0,
    )
    with pytest.raises(Exception, match="within the tables"):
        attention(**attention.random(2, 1))


@pytest.mark.parametrize("sizes", [(0,), (2,), (1, 1, 0)])
def test_steps_that_are_not_one_number_are_refused(sizes, monkeypatch):
    monkeypatch.setattr(module, "KEY_STEP", np.ones(sizes, np.float32))
    attention = Attention(2, 1, 64, 40, of_integers=True)
    with pytest.raises(Exception, match="one step of all keys"):
        attention(**attention.random(2, 1))


@pytest.mark.parametrize(("heads", "groups"), [(0, 1), (3, 2), (65, 1), (1, 0), (-2, 1)])
def test_heads_that_are_no_groups_are_refused_as_a_graph_is_loaded(heads, groups):
    with pytest.raises(Exception, match="heads"):
        Attention(heads, groups, 64, 4)


def test_a_head_of_no_whole_vectors_is_refused():
    attention = Attention(1, 1, 24, 4)
    with pytest.raises(Exception, match="by sixteens"):
        attention(**attention.random(1, 1))


@pytest.mark.parametrize("tables", [0, 1])
def test_turns_without_their_tables_are_refused(tables):
    attention = Attention(2, 1, 64, 40)
    cache = TensorProto.FLOAT, ["b", "g", "m", "d"]
    attention.session = session_of(
        "CachedAttention",
        {
            "qkv": (TensorProto.FLOAT, ["b", "t", "w"]),
            "keys": cache,
            "values": cache,
            "newest": (TensorProto.INT32, ["n"]),
        },
        {"y": (TensorProto.FLOAT, ["b", "t", "y"]), "new_keys": cache, "new_values": cache},
        [numpy_helper.from_array(np.ones((40, 32), np.float32), "cos")][:tables],
        heads=2,
        groups=1,
        turns=1,
        scale=1.0,
    )
    with pytest.raises(Exception, match=r"tables of turns|Invalid"):
        attention(**attention.random(2, 1))
