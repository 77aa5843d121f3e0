"""ONNX graphs that somebody made to harm who reads or runs them, in the place of an artefact's own."""

import dataclasses

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from attendant.manifest import Manifest, sha256_of

OPSET = 24
MALFORMED = {
    "nothing": b"",
    "text": b"not a graph at all, but some words that somebody wrote",
    "cut": b"\x3a\xff\x7f",
    "no graph": onnx.ModelProto(ir_version=10, producer_name="nobody").SerializeToString(),
}


def replace_graph(folder, content, name="model"):
    """Put a file in the place of an artefact's graph, and let the manifest know it."""
    path = folder / f"{name}.onnx"
    path.write_bytes(content)
    manifest = Manifest.read(folder)
    files = {**manifest.files, path.name: sha256_of(path)}
    dataclasses.replace(manifest, files=files).write(folder)
    return folder


def wrapped(signature, nodes, value, constants=None):
    """A file that takes and returns what a signature says: its one output is zeros, and needs a scalar besides.

    Args:
        signature: of the graph.
        nodes: what is computed before.
        value: the name of a float scalar that they compute.
        constants: name → array.
    """
    (out,) = signature.outputs
    batch = helper.make_node("Shape", [signature.inputs[0].name], ["batch_"], start=0, end=1)
    shape = helper.make_node("Concat", ["batch_", "rest_"], ["shape_"], axis=0)
    last = helper.make_node("Expand", [value, "shape_"], [out.name])
    constants = {"rest_": np.array(out.axes[1:], np.int64), **(constants or {})}
    graph = helper.make_graph(
        [*nodes, batch, shape, last],
        "hostile",
        [_value(spec) for spec in signature.inputs],
        [_value(spec) for spec in signature.outputs],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=11).SerializeToString()


def _value(spec):
    return helper.make_tensor_value_info(spec.name, helper.np_dtype_to_tensor_dtype(np.dtype(spec.dtype)), spec.axes)


def endless_loop(signature):
    """One whose ``Loop`` counts until its condition fails, which it never does; it depends on the input."""
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go"], ["go_on"]),
            helper.make_node("Add", ["carried", "carried"], ["carried_on"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("carried", TensorProto.FLOAT, []),
        ],
        [
            helper.make_tensor_value_info("go_on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("carried_on", TensorProto.FLOAT, []),
        ],
    )
    nodes = [_scalar_of(signature), helper.make_node("Loop", ["", "true", "scalar"], ["looped"], body=body)]
    return wrapped(signature, nodes, "looped", {"true": np.array(True)})


def huge_tensor(signature, numbers):
    """One that makes tensors of so many floats as it runs."""
    nodes = [
        _scalar_of(signature),
        helper.make_node("Expand", ["scalar", "huge"], ["expanded"]),
        helper.make_node("CumSum", ["expanded", "zero"], ["summed"]),
        helper.make_node("ReduceSum", ["summed"], ["total"], keepdims=0),
    ]
    return wrapped(signature, nodes, "total", {"huge": np.array([numbers], np.int64), "zero": np.array(0, np.int64)})


def fails_as_it_runs(signature):
    """One that asks for an entry that is not there, as only its input tells."""
    nodes = [
        _scalar_of(signature),
        helper.make_node("Cast", ["scalar"], ["number"], to=TensorProto.INT64),
        helper.make_node("Add", ["number", "far"], ["index"]),
        helper.make_node("Gather", ["table", "index"], ["gathered"]),
    ]
    constants = {"far": np.array(10**6, np.int64), "table": np.zeros(3, np.float32)}
    return wrapped(signature, nodes, "gathered", constants)


def long_chain(signature, length):
    """One of as many nodes, each of which takes what the one before it returns."""
    nodes = [helper.make_node("Sin", [f"v{at}"], [f"v{at + 1}"]) for at in range(length)]
    first = helper.make_node("Identity", ["scalar"], ["v0"])
    return wrapped(signature, [_scalar_of(signature), first, *nodes], f"v{length}")


def untyped_weight(signature):
    """One with a weight of which nobody knows how long its numbers are."""
    model = onnx.load_from_string(wrapped(signature, [_scalar_of(signature)], "scalar"))
    model.graph.initializer.append(TensorProto(name="untyped", dims=[3], raw_data=bytes(12)))
    return model.SerializeToString()


def _scalar_of(signature):
    return helper.make_node("ReduceMax", [signature.inputs[0].name], ["scalar"], keepdims=0)


def relus(count):
    """So many nodes in a row."""
    nodes = [helper.make_node("Relu", [str(at)], [str(at + 1)]) for at in range(count)]
    return onnx.ModelProto(graph=onnx.GraphProto(name="g", node=nodes), ir_version=11).SerializeToString()


def nested_conditions(depth):
    """As many subgraphs within each other, two nodes each; written by hand, as protobuf ends at a third of 100."""
    graph = onnx.GraphProto(name="inmost", node=[helper.make_node("Relu", ["x"], ["y"])]).SerializeToString()
    relu, condition = onnx.NodeProto(op_type="Relu"), onnx.NodeProto(op_type="If", input=["c"], output=["y"])
    branch = onnx.AttributeProto(name="then_branch", type=onnx.AttributeProto.GRAPH)
    outer = onnx.GraphProto(name="outer", node=[relu])
    for _ in range(depth):
        graph = _with_message(outer, 1, _with_message(condition, 5, _with_message(branch, 6, graph)))
    return _with_message(onnx.ModelProto(ir_version=11), 7, graph)


def _with_message(message, field, content):
    length, rest = b"", len(content)
    while rest >= 0x80:
        length, rest = length + bytes([rest & 0x7F | 0x80]), rest >> 7
    return message.SerializeToString() + bytes([field << 3 | 2]) + length + bytes([rest]) + content


def functions_in_functions(depth):
    """Each function calls the next one twice: 2^depth nodes where they are put in place."""

    def function(at):
        if at == depth:
            nodes = [helper.make_node("Relu", ["x"], ["y"])]
        else:
            nodes = [
                helper.make_node(f"f{at + 1}", ["x"], ["z"], domain="own"),
                helper.make_node(f"f{at + 1}", ["z"], ["y"], domain="own"),
            ]
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("own", 1)]
        return helper.make_function("own", f"f{at}", ["x"], ["y"], nodes, opsets)

    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy")
    graph = helper.make_graph([helper.make_node("f0", ["x"], ["y"], domain="own")], "g", [x], [y])
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("own", 1)]
    functions = [function(at) for at in range(depth + 1)]
    return helper.make_model(graph, opset_imports=opsets, functions=functions).SerializeToString()
