"""The operator beside float64: every type, shape and block; and what it makes of numbers and graphs that are none."""

import os
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, numpy_helper

from serving.runtime.ort.kernels import library
from serving.runtime.ort.kernels.library import kernels
from tests.serving.runtime.ort.kernels import operators
from tests.serving.runtime.ort.kernels.operators import session_of

pytestmark = [
    pytest.mark.skipif(kernels() is None, reason="needs an x86 processor with AVX2, and a C compiler"),
    pytest.mark.usefixtures("vectors"),
]
RANGES = {"INT4": (-8, 8), "UINT4": (0, 16), "INT8": (-128, 128), "UINT8": (0, 256)}


def tensor(name, kind, numbers):
    """An initializer of 4 or 8 bits."""
    levels = numbers.astype(np.uint8)  # of negative ones, what they are modulo 256
    if kind.endswith("4"):
        halves = np.append(levels.ravel() & 15, np.zeros(levels.size % 2, np.uint8)).reshape(-1, 2)
        levels = (halves[:, 0] | halves[:, 1] << 4).astype(np.uint8)
    return TensorProto(name=name, data_type=getattr(TensorProto, kind), dims=numbers.shape, raw_data=levels.tobytes())


def session(weight, *others, threads=1, **attributes):
    """The operator over a weight, with its scales and zero points."""
    out = weight.dims[0 if attributes.get("transposed") else -1]
    x, y = ((TensorProto.FLOAT, ["batch", "steps", wide]) for wide in ("wide", out))
    return session_of("BlockedMatMul", {"x": x}, {"y": y}, [weight, *others], threads, **attributes)


def answered(loaded, x):
    return loaded.run(None, {"x": x})[0]


class Product:
    """Random weights, the operator over them, and what it should make of an activation."""

    def __init__(self, kind, wide, out, block, *, zeros=False, transposed=False, threads=1):
        random, (low, high) = np.random.default_rng(wide + out), RANGES[kind]
        blocks = -(-wide // block)
        weight, zero = random.integers(low, high, (wide, out)), random.integers(low, high, (blocks, out))
        scale = random.uniform(0.01, 0.02, (blocks, out)).astype(np.float32)
        others = [numpy_helper.from_array(scale, "s"), *([tensor("z", kind, zero)] if zeros else [])]
        stored = tensor("w", kind, weight.T if transposed else weight)
        self.session = session(stored, *others, block=block, transposed=int(transposed), threads=threads)
        self.block, self.wide = block, wide
        zero, scale = (np.repeat(one, block, 0)[:wide] for one in (zero * zeros, scale))
        self.matrix = (weight - zero) * scale.astype(np.float64)

    def __call__(self, x):
        return answered(self.session, x)

    def expected(self, x):
        """In float64, of activations that are rounded as the operator says."""
        rounded = []
        for begin in range(0, self.wide, self.block):
            block = x[..., begin : begin + self.block].astype(np.float64)
            steps = np.abs(block).max(-1, keepdims=True) / 127
            rounded.append(np.rint(block / np.where(steps, steps, 1)) * steps)
        return np.concatenate(rounded, -1) @ self.matrix

    def random(self, *rows):
        return np.random.default_rng(0).standard_normal((*rows, self.wide)).astype(np.float32)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize(
    ("wide", "out", "block"), [(64, 33, 16), (256, 40, 256), (192, 100, 32), (16, 1, 16), (80, 20, 32), (48, 9, 128)]
)
@pytest.mark.parametrize("kind", RANGES)
def test_products_are_those_of_float64_to_the_rounding_of_float32(kind, wide, out, block, zeros, transposed):
    product = Product(kind, wide, out, block, zeros=zeros, transposed=transposed)
    for rows in (1, 2, 3, 5, 8, 13, 21):
        x = product.random(1, rows)
        expected = product.expected(x)
        np.testing.assert_allclose(product(x), expected, rtol=0, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("kind", ["INT4", "INT8"])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_row_is_the_same_to_the_bit_whoever_stands_beside_it(kind, threads):
    product = Product(kind, 512, 200, 256, threads=threads)
    x = product.random(2, 17)
    alone = np.concatenate([product(x[:1, step : step + 1]) for step in range(17)], 1)
    np.testing.assert_array_equal(product(x)[:1], alone)
    loud = np.concatenate([x[:1], 1e6 * x[1:]])
    np.testing.assert_array_equal(product(loud)[:1], alone)


@pytest.mark.parametrize("kind", RANGES)
def test_products_are_the_same_to_the_bit_with_any_vectors(kind, monkeypatch):
    found = []
    for vectors in library.vectors():
        monkeypatch.setattr(operators, "kernels", lambda vectors=vectors: kernels(vectors))
        product = Product(kind, 192, 100, 32, zeros=True)
        found.append(product(product.random(1, 11)))
    for one in found:
        np.testing.assert_array_equal(one, found[0])


def test_the_scales_of_one_block_are_a_row_or_a_list():
    product = Product("INT8", 64, 5, 64)
    weight, scale = tensor("w", "INT8", np.ones((64, 5))), numpy_helper.from_array(np.ones(5, np.float32), "s")
    x = product.random(1, 2)
    np.testing.assert_allclose(
        answered(session(weight, scale, block=64, transposed=0), x),
        np.repeat(x.sum(-1, keepdims=True), 5, -1),
        atol=0.5,
    )


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_stays_none_in_its_row_alone(odd):
    product = Product("INT4", 64, 40, 32)
    x = product.random(1, 3)
    quiet = product(x)
    x[0, 1, 40] = odd
    found = product(x)
    assert not np.isfinite(found[0, 1]).any()
    np.testing.assert_array_equal(found[0, [0, 2]], quiet[0, [0, 2]])


@pytest.mark.parametrize("size", [0.0, 1e-45, 1e-38, 1e-31, 1e34])
def test_the_smallest_and_the_largest_activations_are_numbers(size):
    product = Product("INT8", 64, 40, 64)
    x = np.full((1, 1, 64), size, np.float32)
    found = product(x)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found, product.expected(x), rtol=1e-5, atol=1e-27)


def test_the_memory_of_weights_goes_back_with_their_sessions():
    def resident_mb():
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") >> 20

    weight = tensor("w", "UINT8", np.ones((4096, 2048), np.uint8))  # 8 MB, laid out anew
    scale = numpy_helper.from_array(np.ones((256, 2048), np.float32), "s")
    several = [session(weight, scale, block=16, transposed=0) for _ in range(8)]  # allocators have what they keep
    before_mb = resident_mb()
    for _ in range(60):
        several = [*several[1:], session(weight, scale, block=16, transposed=0)]
    assert resident_mb() - before_mb < 160, "of 480 that were laid out since, and chunks of 32"
    x = np.ones((1, 1, 4096), np.float32)
    np.testing.assert_allclose(answered(several[0], x), 4096, rtol=1e-5)


def test_no_rows_are_no_rows():
    product = Product("INT4", 64, 40, 32)
    assert product(product.random(0, 3)).shape == (0, 3, 40)


def test_another_width_is_refused():
    product = Product("INT4", 64, 40, 32)
    with pytest.raises(Exception, match="as wide as the weight"):
        product(np.ones((1, 1, 32), np.float32))


SCALES = numpy_helper.from_array(np.ones((2, 5), np.float32), "s")
WEIGHT = tensor("w", "INT4", np.ones((64, 5)))
HOSTILE = {
    "no block": ([WEIGHT, SCALES], {"transposed": 0}, "block"),
    "a block of none": ([WEIGHT, SCALES], {"block": 0, "transposed": 0}, "blocks of 16"),
    "a block below zero": ([WEIGHT, SCALES], {"block": -32, "transposed": 0}, "blocks of 16"),
    "a block of eight": ([WEIGHT, SCALES], {"block": 8, "transposed": 0}, "blocks of 16"),
    "too many scales": ([WEIGHT, SCALES], {"block": 64, "transposed": 0}, "a float32 scale a block"),
    "a width of no sixteens": (
        [tensor("w", "INT4", np.ones((40, 5))), SCALES],
        {"block": 32, "transposed": 0},
        "by sixteens",
    ),
    "a huge block": ([WEIGHT, SCALES], {"block": 2**62, "transposed": 0}, "blocks of 16"),
    "too few scales": ([WEIGHT, SCALES], {"block": 16, "transposed": 0}, "a float32 scale a block"),
    "scales of another width": ([WEIGHT, SCALES], {"block": 5, "transposed": 1}, "blocks of 16"),
    "scales in 64 bits": (
        [WEIGHT, numpy_helper.from_array(np.ones((2, 5)), "s")],
        {"block": 32, "transposed": 0},
        "Type Error|float",
    ),
    "a weight of three dimensions": (
        [tensor("w", "INT4", np.ones((4, 16, 5))), SCALES],
        {"block": 32, "transposed": 0},
        "two dimensions",
    ),
    "a weight of floats": (
        [numpy_helper.from_array(np.ones((64, 5), np.float32), "w"), SCALES],
        {"block": 32, "transposed": 0},
        "4 or 8 bits",
    ),
    "zero points of another type": (
        [WEIGHT, SCALES, tensor("z", "UINT8", np.ones((2, 5)))],
        {"block": 32, "transposed": 0},
        "of the weight's type",
    ),
    "zero points of another shape": (
        [WEIGHT, SCALES, tensor("z", "INT4", np.ones((1, 5)))],
        {"block": 32, "transposed": 0},
        "a zero point a block",
    ),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_graph_that_says_something_else_is_refused_as_it_is_loaded(case):
    tensors, attributes, message = HOSTILE[case]
    with pytest.raises(Exception, match=message):
        session(*tensors, **attributes)


@pytest.mark.parametrize(("place", "kind"), [(3, "INT8"), (4, "FLOAT")], ids=["zero points", "a bias"])
def test_zero_points_and_a_bias_that_are_not_constant_are_refused(place, kind):
    nothing = [TensorProto(name="", data_type=TensorProto.FLOAT)] * (place - 3)
    constants = [tensor("w", "INT8", np.ones((16, 5))), numpy_helper.from_array(np.ones(5, np.float32), "s"), *nothing]
    inputs = {"x": (TensorProto.FLOAT, [2, 16]), "late": (getattr(TensorProto, kind), [5])}
    outputs = {"y": (TensorProto.FLOAT, [2, 5])}
    late = np.ones(5, np.int8 if kind == "INT8" else np.float32)
    with pytest.raises(Exception, match="constant zero points and a constant bias"):
        session_of("BlockedMatMul", inputs, outputs, constants, behind=("late",), block=16, transposed=0).run(
            None, {"x": np.ones((2, 16), np.float32), "late": late}
        )
