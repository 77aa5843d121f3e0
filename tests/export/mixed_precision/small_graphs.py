"""Small ONNX files, written as text, with what makes typing hard."""

import numpy as np
import onnx
from onnx import numpy_helper

EXACT = """
<ir_version: 8, opset_import: ["" : 17]>
agraph (float[batch, 8] x) => (float[batch, 8] y)
<float[8] scale = {0.1, 0.3, 1.7, 2.5, 3.3, 0.01, 7.1, 9.9}>
{
    scaled = Mul(x, scale)
    sum = Add(scaled, x)
    y = Relu(sum)
}
"""
CANCELLING = """
<ir_version: 8, opset_import: ["" : 17]>
agraph (float[batch, 64] x) => (float[batch, 64] y)
<float offset = {1000.0}>
{
    wide = Tanh(x)
    lifted = Add(wide, offset)
    back = Sub(lifted, offset)
    a = Sin(back)
    b = Cos(a)
    y = Add(a, b)
}
"""
OVERFLOWING = """
<ir_version: 8, opset_import: ["" : 17]>
agraph (float[batch, 64] x) => (float[batch, 64] y)
<float large = {70000.0}, float small = {0.0001}>
{
    calm = Tanh(x)
    high = Div(calm, small)
    higher = Mul(high, large)
    low = Div(higher, large)
    y = Mul(low, small)
}
"""
MASKED = """
<ir_version: 8, opset_import: ["" : 17]>
agraph (float[batch, 8] x, int64[batch, 8] mask) => (float[batch, 8] y)
<float one = {1.0}, float lowest = {-3.4028234e38}, float epsilon = {1e-12}>
{
    seen = Cast <to = 1> (mask)
    unseen = Sub(one, seen)
    bias = Mul(unseen, lowest)
    scores = Add(x, bias)
    p = Softmax <axis = -1> (scores)
    safe = Add(p, epsilon)
    y = Log(safe)
}
"""
BRANCHING = """
<ir_version: 8, opset_import: ["" : 17]>
agraph (float[batch, 8] x, bool flag) => (float[batch, 8] y)
<float[8] scale = {0.1, 0.3, 1.7, 2.5, 3.3, 0.01, 7.1, 9.9}>
{
    scaled = Mul(x, scale)
    chosen = If (flag) <
        then_branch = one () => (float[batch, 8] a) { t = Mul(scaled, scale)  a = Add(t, x) },
        else_branch = other () => (float[batch, 8] b) { b = Identity(scaled) }
    >
    y = Relu(chosen)
}
"""
COUNTING = """
<ir_version: 8, opset_import: ["" : 17]>
agraph (float[4, 4] x) => (float[4, 4] y)
<float zero = {0.0}, float one = {1.0}, float last = {4096.0}, float small = {0.001}, bool go = {1}>
{
    products = MatMul(x, x)
    mean = ReduceMean <keepdims = 0> (products)
    first = Mul(mean, zero)
    counted = Loop (, go, first) <
        body = body (int64 i, bool c, float before) => (bool again, float after) {
            after = Add(before, one)
            again = Less(after, last)
        }
    >
    scaled = Mul(counted, small)
    y = Add(products, scaled)
}
"""
LOOPING = """
<ir_version: 8, opset_import: ["" : 17]>
agraph (float[4] x) => (float[4] y, float[n, 4] steps)
<int64 count = {3}, bool go = {1}, float half = {0.5}>
{
    y, steps = Loop (count, go, x) <
        body = body (int64 i, bool c, float[4] before) => (bool again, float[4] after, float[4] step) {
            again = Identity(c)
            halved = Mul(before, half)
            after = Add(halved, x)
            step = Tanh(after)
        }
    >
}
"""
RESIZING = """
<ir_version: 8, opset_import: ["" : 17]>
agraph (float[1, 2, 4, 4] x) => (float[1, 2, h, w] y, float[1, 2, 3] z)
<float[4] two = {1.0, 1.0, 2.0, 2.0}, int64[1] three = {3}>
{
    shape = Shape(x)
    sizes = Cast <to = 1> (shape)
    doubled = Mul(sizes, two)
    exact = Floor(doubled)
    target = Cast <to = 7> (exact)
    back = Cast <to = 1> (target)
    factors = Div(back, sizes)
    y = Resize <mode = "linear"> (x, , factors)
    zeros = ConstantOfShape <value = float[1] {0.5}> (three)
    flat = Reshape <allowzero = 0> (x, shape)
    rows = ReduceMean <axes = [3], keepdims = 0> (flat)
    first = Slice(rows, from, to, along)
    z = Add(first, zeros)
}
"""
DETECTING = """
<ir_version: 8, opset_import: ["" : 17]>
agraph (float[1, 32, 4] x) => (float[1, 5, 4] boxes, int64[1, 5] best, float[1, 5] scores)
<int64[1] five = {5}, float[4] weight = {0.5, 0.25, 0.125, 0.0625}, int64[1] last = {2}>
{
    weighted = Mul(x, weight)
    all = ReduceSum <keepdims = 0> (weighted, last)
    scores, best = TopK <axis = 1> (all, five)
    at = Unsqueeze(best, last)
    index = Expand(at, target)
    boxes = GatherElements <axis = 1> (weighted, index)
}
"""
SUPPRESSING = """
<ir_version: 8, opset_import: ["" : 17]>
agraph (float[1, 24, 4] corners, float[1, 3, 24] logits) => (float[n, 4] boxes, int64[n, 3] chosen)
<int64 most = {4}, float overlap = {0.5}, float least = {0.3}, float[4] size = {32.0, 32.0, 32.0, 32.0}>
{
    relative = Sigmoid(corners)
    absolute = Mul(relative, size)
    scores = Sigmoid(logits)
    chosen = NonMaxSuppression(absolute, scores, most, overlap, least)
    columns = Gather <axis = 1> (chosen, two)
    rows = Squeeze(absolute, zero)
    boxes = Gather <axis = 0> (rows, columns)
}
"""
CONVOLVING = """
<ir_version: 10, opset_import: ["" : 21]>
agraph (float[batch, 2, 6, 6] x) => (float[batch, 3] y)
{
    a = Conv <pads = [1, 1, 1, 1]> (x, kernel)
    b = Relu(a)
    c = GlobalAveragePool(b)
    d = Flatten(c)
    y = Gemm <transB = 1> (d, matrix, shift)
}
"""


SHARED = """
<ir_version: 10, opset_import: ["" : 21]>
agraph (float[batch, 4] x, bool flag) => (float[batch, 4] y)
{
    same = Identity(matrix)
    a = MatMul(x, matrix)
    b = MatMul(a, same)
    turned = Transpose(other)
    c = Gemm <alpha = 2.0> (b, other)
    y = If (flag) <
        then_branch = one () => (float[batch, 4] d) { d = MatMul(c, matrix) },
        else_branch = two () => (float[batch, 4] e) { e = Add(c, turned) }
    >
}
"""


def write_graph(path, text, **constants):
    """Write a graph; constants by name, beyond those that the text holds."""
    model = onnx.parser.parse_model(text)
    model.graph.initializer.extend(
        numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()
    )
    onnx.save(model, path)
    return path


def write_resizing(path):
    constants = {"from": np.array([0]), "to": np.array([3]), "along": np.array([2])}
    return write_graph(path, RESIZING, **constants)


def write_detecting(path):
    return write_graph(path, DETECTING, target=np.array([1, 5, 4]))


def write_suppressing(path):
    return write_graph(path, SUPPRESSING, two=np.array(2), zero=np.array([0]))


def write_convolving(path):
    rng = np.random.default_rng(0)
    kernel, matrix = rng.standard_normal((4, 2, 3, 3)), rng.standard_normal((3, 4))
    constants = {"kernel": kernel, "matrix": matrix, "shift": rng.standard_normal(3)}
    return write_graph(path, CONVOLVING, **{name: array.astype(np.float32) for name, array in constants.items()})
