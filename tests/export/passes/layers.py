"""A graph of one layer, and what ONNX Runtime makes of a graph."""

import numpy as np
import onnx_ir as ir
import onnxruntime as ort

from serving.runtime.ort.runner import widen_sums_of_bytes


def layer(width, out, seed=0):
    """``x @ weight + bias``, with x [batch, steps, width] and random weights."""
    rng = np.random.default_rng(seed)
    shape = ir.Shape(["batch", "steps", width])
    x = ir.Value(name="x", shape=shape, type=ir.TensorType(ir.DataType.FLOAT))
    weight = constant("weight", rng.standard_normal((width, out)).astype(np.float32))
    bias = constant("bias", rng.standard_normal(out).astype(np.float32))
    product = ir.node("MatMul", [x, weight], outputs=[activation("out", out)])
    total = ir.node("Add", [product.outputs[0], bias], outputs=[activation("y", out)])
    graph = ir.Graph([x], total.outputs, nodes=[product, total], initializers=[weight, bias], opset_imports={"": 24})
    return ir.Model(graph, ir_version=11)


def both_ways(rows, columns, turned_first, seed=0):
    """One random matrix [rows, columns] multiplied as it is and turned, with a Relu between, in either order."""
    matrix = np.random.default_rng(seed).standard_normal((rows, columns)).astype(np.float32)
    weight, width, between = constant("weight", matrix), *((columns, rows) if turned_first else (rows, columns))
    turn = ir.node("Transpose", [weight], {"perm": [1, 0]})
    first, second = (turn.outputs[0], weight) if turned_first else (weight, turn.outputs[0])
    inner = ir.node("MatMul", [activation("x", width), first], outputs=[activation("inner", between)])
    shown = ir.node("Relu", inner.outputs, outputs=[activation("shown", between)])
    outer = ir.node("MatMul", [shown.outputs[0], second], outputs=[activation("y", width)])
    nodes = [turn, inner, shown, outer]
    graph = ir.Graph(inner.inputs[:1], outer.outputs, nodes=nodes, initializers=[weight], opset_imports={"": 24})
    return ir.Model(graph, ir_version=11)


def constant(name, array):
    """An initializer."""
    tensor = ir.tensor(array, name=name)
    return ir.Value(name=name, shape=tensor.shape, type=ir.TensorType(tensor.dtype), const_value=tensor)


def activation(name, width):
    """A float32 value [batch, steps, width]."""
    return ir.Value(name=name, shape=ir.Shape(["batch", "steps", width]), type=ir.TensorType(ir.DataType.FLOAT))


def answers(model, x, level=ort.GraphOptimizationLevel.ORT_ENABLE_ALL):
    """What ONNX Runtime computes, on one thread."""
    return session(model, level=level).run(None, {"x": x})[0]


def runtimes_own(model, path):
    """The operators that ONNX Runtime makes of a model's."""
    session(model, optimized_model_filepath=str(path))
    return [node.op_type for node in ir.load(path).graph]


def session(model, level=ort.GraphOptimizationLevel.ORT_ENABLE_ALL, **settings):
    """A model, loaded on one thread."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    options.graph_optimization_level = level
    if not any(map(_leaves_zeros_out, model.graph)):
        widen_sums_of_bytes(options)
    for name, value in settings.items():
        setattr(options, name, value)
    return ort.InferenceSession(ir.to_proto(model).SerializeToString(), options)


def _leaves_zeros_out(node):
    # As TensorRT's forms do, of which ONNX Runtime sums no bytes.
    if node.op_type != "DequantizeLinear" or len(node.inputs) != 2 or node.inputs[0].dtype != ir.DataType.INT8:
        return False
    scale = node.inputs[1].const_value
    return scale is not None and scale.size > 1
