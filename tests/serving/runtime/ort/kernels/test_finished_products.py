"""What follows a product within the operator, beside float64: bias, activation, gate, and what is added."""

import math

import numpy as np
import pytest
from onnx import TensorProto, numpy_helper

from serving.runtime.ort.kernels.library import kernels
from tests.serving.runtime.ort.kernels.operators import session_of
from tests.serving.runtime.ort.kernels.test_blocked_matmul import RANGES, tensor

pytestmark = [
    pytest.mark.skipif(kernels() is None, reason="needs an x86 processor with AVX2, and a C compiler"),
    pytest.mark.usefixtures("vectors"),
]
ACTIVATIONS = {
    0: lambda p: p,
    1: lambda p: p / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (p + 0.044715 * p**3))),
    2: lambda p: p / (1 + np.exp(-p)),
    3: lambda p: p / 2 * (1 + np.vectorize(math.erf)(p / math.sqrt(2))),
}
NONE = TensorProto(name="", data_type=TensorProto.FLOAT)


class Finished:
    """The operator over random weights, with what follows it, and what it should make of an activation."""

    def __init__(self, kind, out, *, bias, activation, gated, added, wide=64, scale=0.02):
        random, (low, high) = np.random.default_rng(out), RANGES[kind]
        weight, scales = (
            random.integers(low, high, (wide, out)),
            random.uniform(scale / 2, scale, out).astype(np.float32),
        )
        self.matrix, self.wide, self.answers = weight * scales.astype(np.float64), wide, out // 2 if gated else out
        self.bias = random.standard_normal(out).astype(np.float32) if bias else np.zeros(out)
        self.activation, self.gated, self.added = activation, gated, added
        constants = [tensor("w", kind, weight), numpy_helper.from_array(scales, "s"), NONE]
        constants += [numpy_helper.from_array(self.bias, "d") if bias else NONE]
        inputs = {"x": (TensorProto.FLOAT, ["batch", "steps", wide])}
        if added:
            inputs["r"] = (TensorProto.FLOAT, ["batch", "steps", "answers"])
        attributes = {"block": wide, "transposed": 0, "activation": activation, "gated": int(gated)}
        outputs = {"y": (TensorProto.FLOAT, ["batch", "steps", self.answers])}
        self.session = session_of("BlockedMatMul", inputs, outputs, constants, behind=("r",), **attributes)

    def __call__(self, x, r):
        return self.session.run(None, {"x": x} | ({"r": r} if self.added else {}))[0]

    def expected(self, x, r):
        """In float64, of activations that are rounded as the operator says."""
        steps = np.abs(x.astype(np.float64)).max(-1, keepdims=True) / 127
        p = np.rint(x / np.where(steps, steps, 1)) * steps @ self.matrix + self.bias
        f = ACTIVATIONS[self.activation]
        y = f(p[..., : self.answers]) * p[..., self.answers :] if self.gated else f(p)
        return y + r if self.added else y

    def random(self, rows):
        random = np.random.default_rng(rows)
        return [random.standard_normal((1, rows, wide)).astype(np.float32) for wide in (self.wide, self.answers)]


@pytest.mark.parametrize("added", [False, True])
@pytest.mark.parametrize(
    ("activation", "gated"), [(0, False), (1, False), (2, False), (3, False), (1, True), (2, True), (3, True)]
)
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("kind", "out"), [("INT4", 66), ("INT8", 100), ("UINT4", 2), ("INT8", 128)])
def test_what_follows_is_that_of_float64_to_the_rounding_of_float32(kind, out, bias, activation, gated, added):
    product = Finished(kind, out, bias=bias, activation=activation, gated=gated, added=added)
    for rows in (1, 3, 8, 21):
        x, r = product.random(rows)
        expected = product.expected(x, r)
        np.testing.assert_allclose(product(x, r), expected, rtol=0, atol=2e-6 * np.abs(expected).max())


@pytest.mark.parametrize("activation", [1, 2, 3])
def test_an_activation_of_large_numbers_is_they_or_nothing(activation):
    product = Finished("INT8", 32, bias=False, activation=activation, gated=False, added=False, scale=1e6)
    x, r = product.random(5)
    with np.errstate(over="ignore"):
        expected = product.expected(x, r)
    assert np.abs(expected).max() > 1e8
    np.testing.assert_allclose(product(x, r), expected, rtol=2e-6, atol=1e-3)


def test_what_is_added_has_the_sizes_of_the_answer():
    product = Finished("INT8", 32, bias=False, activation=0, gated=False, added=True)
    x, r = product.random(3)
    for wrong in (r[:, :2], r[..., :31]):
        with pytest.raises(Exception, match="a sum with numbers of the answer"):
            product(x, wrong)


@pytest.mark.parametrize("attributes", [{"activation": 4}, {"activation": -1}, {"gated": 1}])
def test_what_it_does_not_know_is_refused(attributes):
    random = np.random.default_rng(0)
    constants = [
        tensor("w", "INT8", random.integers(-9, 9, (16, 3))),
        numpy_helper.from_array(np.ones(3, np.float32), "s"),
    ]
    with pytest.raises(Exception, match=r"an activation that it knows|as many columns that gate"):
        session_of(
            "BlockedMatMul",
            {"x": (TensorProto.FLOAT, [1, 16])},
            {"y": (TensorProto.FLOAT, [1, 3])},
            constants,
            block=16,
            transposed=0,
            **attributes,
        )
