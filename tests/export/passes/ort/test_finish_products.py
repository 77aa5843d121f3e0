"""The pass on what follows products: it is theirs where nobody else reads it, and answers stay."""

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest

from export.passes.ort.finish_products import FinishProducts
from export.passes.ort.multiply_in_blocks import MultiplyInBlocks
from export.passes.quantise.quantise_dynamic import QuantiseDynamic
from serving.runtime.ort.kernels.library import kernels

needs_kernels = pytest.mark.skipif(kernels() is None, reason="needs an x86 processor with AVX2, and a C compiler")
WIDE = 32
TYPED = f"(float[batch, steps, {WIDE}] x, float[batch, steps, {WIDE}] r) => (float[batch, steps, {{answers}}] y)"


def multiplied(text, answers=WIDE, out=WIDE):
    """A graph of a product ``p`` of ``x`` in blocks, with ``d`` [out], and of what a text makes of it."""
    lines = f"p = MatMul(x, w)\n{text}"
    declared = f"<float[{WIDE}, {out}] w, float[{out}] d, int64[2] halves>"
    model = onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["": 24]> g {TYPED.format(answers=answers)} {declared} {{ {lines} }}'
    )
    random = np.random.default_rng(0)
    for name, array in {
        "w": random.standard_normal((WIDE, out)).astype(np.float32),
        "d": random.standard_normal(out).astype(np.float32),
        "halves": np.array([out // 2, out - out // 2]),
    }.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    del model.graph.value_info[:]
    model = ir.from_proto(onnx.shape_inference.infer_shapes(model))
    QuantiseDynamic()(model)
    assert MultiplyInBlocks()(model).fired
    return model


def operators(model):
    return [node.op_type for node in model.graph]


def answer(model, x, r):
    options = ort.SessionOptions()
    options.register_custom_ops_library(str(kernels()))
    options.intra_op_num_threads = 1
    loaded = ort.InferenceSession(ir.to_proto(model).SerializeToString(), options)
    return loaded.run(None, {"x": x, "r": r})


GELU = 'f = Gelu<approximate="tanh">(b)'
SILU = "s = Sigmoid(b)\nf = Mul(b, s)"
TAKEN = {
    "bias": ("y = Add(p, d)", WIDE, WIDE),
    "sum": ("y = Add(r, p)", WIDE, WIDE),
    "bias and sum": ("b = Add(d, p)\ny = Add(b, r)", WIDE, WIDE),
    "GELU": (f"b = Add(p, d)\n{GELU}\ny = Add(f, r)", WIDE, WIDE),
    "GELU by erf": ("b = Add(p, d)\nf = Gelu(b)\ny = Add(f, r)", WIDE, WIDE),
    "SiLU": (SILU.replace("b", "p").replace("f =", "y ="), WIDE, WIDE),
    "gated by SiLU": (f"b, u = Split<axis=-1>(p, halves)\n{SILU}\nq = Mul(f, u)\ny = Add(r, q)", WIDE, 2 * WIDE),
    "gated by GELU": (f"a = Add(p, d)\nb, u = Split<axis=-1>(a, halves)\n{GELU}\ny = Mul(u, f)", WIDE, 2 * WIDE),
}


@needs_kernels
@pytest.mark.parametrize("name", TAKEN)
def test_what_follows_a_product_is_done_within_it(name):
    text, answers, out = TAKEN[name]
    model = multiplied(text, answers, out)
    x, r = np.random.default_rng(1).standard_normal((2, 2, 5, WIDE)).astype(np.float32)
    (before,) = answer(model, x, r)
    assert FinishProducts()(model).fired == 1
    assert [one for one in operators(model) if one != "Identity"] == ["BlockedMatMul"]
    assert [one.name for one in model.graph.outputs] == ["y"]
    (after,) = answer(model, x, r)
    np.testing.assert_allclose(after, before, rtol=0, atol=1e-5 * np.abs(before).max())


LEFT = {
    "read by others": "b = Add(p, d)\ny = Mul(b, p)",
    "another activation": "f = Relu(p)\ny = Identity(f)",
    "a sigmoid alone": "f = Sigmoid(p)\ny = Identity(f)",
    "a number for all": "c = Constant<value_float=1.0>()\ny = Add(p, c)",
    "a sum that stretches": "m = ReduceMax<keepdims=1>(r)\ny = Add(p, m)",
    "halves that are not": "a, u = Split<axis=1>(p, halves)\ns = Sigmoid(a)\nf = Mul(a, s)\ny = Mul(f, u)",
    "the second half gates": "u, a = Split<axis=-1>(p, halves)\ns = Sigmoid(a)\nf = Mul(a, s)\ny = Mul(f, u)",
    "added to itself": "y = Add(p, p)",
}


@pytest.mark.parametrize("name", LEFT)
def test_what_the_operator_does_not_do_stays(name):
    model = multiplied(LEFT[name])
    before = operators(model)
    assert FinishProducts()(model).fired == 0
    assert operators(model) == before
