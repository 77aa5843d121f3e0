import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from attendant.signature import GraphSignature, TensorSpec
from export.targets.check import validate
from export.targets.constraints.graph import Graph
from export.targets.constraints.registry import CONSTRAINTS
from export.targets.targets import TARGETS
from tests.export.targets.constraints import broken_attention, broken_layers
from tests.export.targets.constraints.graph_texts import blocks, float8_conv, unary

CASES = {**broken_attention.CASES, **broken_layers.CASES}
WORDS = {"float": "float32", "double": "float64"}


def read(text, path):
    """The graph of a text, with the signature that its manifest would state."""
    model = onnx.parser.parse_model(text)
    onnx.save(model, path)
    aliases = {"out": "cache"} if "TensorScatter" in text else {}
    aliases |= {"out_k": "cache_k", "out_v": "cache_v"} if "append" in text else {}
    specs = [tuple(spec(value) for value in values) for values in (model.graph.input, model.graph.output)]
    return Graph(path, GraphSignature(name="g", inputs=specs[0], outputs=specs[1], aliases=aliases))


def spec(value):
    kind = value.type.tensor_type
    axes = tuple(dim.dim_param or dim.dim_value for dim in kind.shape.dim)
    word = onnx.TensorProto.DataType.Name(kind.elem_type).lower()
    return TensorSpec(name=value.name, dtype=WORDS.get(word, word), axes=axes)


def broken(graph, target):
    return {check.constraint.name: check.violations for check in validate(graph, target) if check.violations}


@pytest.mark.parametrize("name", CASES)
def test_a_graph_that_breaks_a_constraint_is_caught_at_its_node(name, tmp_path):
    case = CASES[name]
    found = broken(read(case.broken, tmp_path / "g.onnx"), TARGETS[case.target])
    assert name in found
    assert [violation.node for violation in found[name]] == [case.at]


@pytest.mark.parametrize("name", CASES)
def test_a_graph_that_keeps_it_breaks_nothing(name, tmp_path):
    case = CASES[name]
    assert broken(read(case.sound, tmp_path / "g.onnx"), TARGETS[case.target]) == {}


def test_every_constraint_has_a_graph_that_breaks_it():
    assert CASES.keys() == CONSTRAINTS.keys()


def test_every_record_names_constraints_that_exist_and_every_constraint_is_some_records():
    named = {name for target in TARGETS.values() for name in target.constraints}
    assert named == CONSTRAINTS.keys()
    assert all(len(set(target.constraints)) == len(target.constraints) for target in TARGETS.values())


def blockwise(points, path):
    """Weights of 4 bits with a scale and a zero point for each block of 64, the points in a file of their own."""
    weights = helper.make_tensor("w", TensorProto.INT4, [128, 8], np.zeros(128 * 8, np.int8))
    zeros = helper.make_tensor("points", TensorProto.INT4, [2, 8], np.full(16, points, np.int8))
    scales = numpy_helper.from_array(np.ones((2, 8), np.float32), "scales")
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "scales", "points"], ["wide"], "widen", axis=0, block_size=64),
        helper.make_node("MatMul", ["x", "wide"], ["y"], "multiply"),
    ]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["B", n]) for name, n in (("x", 128), ("y", 8))]
    made = helper.make_graph(nodes, "g", values[:1], values[1:], [weights, zeros, scales])
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 24)], ir_version=10)
    onnx.save(model, path, save_as_external_data=True, location="weights", size_threshold=0)
    return Graph(path, GraphSignature(name="g", inputs=(spec(values[0]),), outputs=(spec(values[1]),)))


def test_weights_of_4_bits_in_another_file_hold_where_their_zero_points_are_0(tmp_path):
    assert broken(blockwise(0, tmp_path / "g.onnx"), TARGETS["tensorrt"]) == {}


def test_a_zero_point_in_another_file_is_read(tmp_path):
    (violation,) = broken(blockwise(3, tmp_path / "g.onnx"), TARGETS["tensorrt"])["zero-point"]
    assert violation.node == "widen (DequantizeLinear)"


@pytest.mark.parametrize(
    ("scales", "attributes", "matrix"),
    [
        ("float[2]", "axis = 1", "int8[4,2]"),
        ("float[4]", "axis = 0", "int8[4,2]"),
        ("float[2]", "axis = -1", "int8[4,2]"),
        ("float[1,1]", "axis = 0", "int8[4,2]"),
        ("float[2,1]", "axis = 1, block_size = 64", "int4[2,64]"),
        ("float[3,2]", "axis = 0, block_size = 128", "int4[384,2]"),
    ],
)
def test_scales_that_the_parser_reads_as_the_standard_does_hold(scales, attributes, matrix, tmp_path):
    assert broken(read(blocks(scales, attributes, x=matrix), tmp_path / "g.onnx"), TARGETS["tensorrt"]) == {}


@pytest.mark.parametrize(
    ("scales", "attributes", "matrix", "found"),
    [
        ("float[4]", "axis = 1", "int8[4,2]", r"scale [4] of [4, 2] along axis 1"),
        ("float[2,2]", "axis = 0, block_size = 2", "int8[4,2]", r"scale [2, 2] of [4, 2], int8 in blocks"),
        ("float[2,1]", "axis = 0, block_size = 2", "int4[4,2]", r"scale [2, 1] of [4, 2]"),
        ("float[2,2]", "axis = 0, block_size = 128", "int4[128,2]", r"scale [2, 2] of [128, 2] in blocks of 128"),
        ("float[3,2]", "axis = 0, block_size = 64", "int4[176,2]", r"scale [3, 2] of [176, 2] in blocks of 64"),
        ("float[2,2]", "axis = 0, block_size = 32", "int4[64,2]", r"scale [2, 2] of [64, 2] in blocks of 32"),
        ("float[2,2]", "axis = 0, block_size = 256", "int4[512,2]", r"scale [2, 2] of [512, 2] in blocks of 256"),
    ],
)
def test_scales_that_the_parser_refuses_or_reads_otherwise_are_named(scales, attributes, matrix, found, tmp_path):
    (violation,) = broken(read(blocks(scales, attributes, x=matrix), tmp_path / "g.onnx"), TARGETS["tensorrt"])[
        "scale-shape"
    ]
    assert violation.found == found


@pytest.mark.parametrize(
    ("weight", "out", "attributes"),
    [
        ("float[16,15,1,1]", "16,16,16", ""),
        ("float[15,16,1,1]", "15,16,16", ""),
        ("float[32,8,1,1]", "32,16,16", "<group = 2>"),
    ],
)
def test_convolutions_of_few_channels_have_no_float8_kernel(weight, out, attributes, tmp_path):
    text = float8_conv(weight, out, attributes).replace(
        "float[B,16,", "float[B,15," if ",15," in weight else "float[B,16,"
    )
    (violation,) = broken(read(text, tmp_path / "g.onnx"), TARGETS["tensorrt"])["float8-convolution"]
    assert violation.found == f"weights [{', '.join(weight[6:-1].split(','))}]"


def test_swish_is_read_by_tensorrt_11_and_not_by_10_16(tmp_path):
    made = read(unary("Swish"), tmp_path / "g.onnx")
    assert broken(made, TARGETS["tensorrt"]) == {}
    assert broken(made, TARGETS["tensorrt-10.16"]).keys() == {"operator"}
