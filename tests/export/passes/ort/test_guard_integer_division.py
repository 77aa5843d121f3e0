"""The pass on integer divisions: the same quotients and remainders, and none that ends the process."""

import subprocess
import sys

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper

from export.passes.ort.guard_integer_division import GuardIntegerDivision
from tests.export.passes.layers import session

KINDS = {"int64": TensorProto.INT64, "int32": TensorProto.INT32}
RUN = """
import sys, numpy, onnxruntime
a, b = numpy.array({}, "{}")
onnxruntime.InferenceSession(sys.argv[1]).run(None, {{"a": a, "b": b}})
"""


def division(operator, kind="int64", **attributes):
    """``a`` over ``b``, both ``[n]``."""
    tensors = [helper.make_tensor_value_info(name, KINDS[kind], ["n"]) for name in "aby"]
    node = helper.make_node(operator, ["a", "b"], ["y"], **attributes)
    graph = helper.make_graph([node], "g", tensors[:2], tensors[2:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=11)
    onnx.checker.check_model(model, full_check=True)
    return ir.from_proto(model)


CASES = [("Div", {}), ("Mod", {}), ("Mod", {"fmod": 1})]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("operator", "attributes"), CASES)
def test_every_quotient_and_remainder_is_as_before(operator, attributes, kind):
    numbers = np.array([-9, -8, -7, -1, 1, 2, 3, 7, 100], kind)
    a, b = (part.ravel() for part in np.meshgrid(np.concatenate([numbers, [0]]).astype(kind), numbers))
    model = division(operator, kind, **attributes)
    (before,) = session(model).run(None, {"a": a, "b": b})
    result = GuardIntegerDivision()(model)
    assert result.fired == 1 and GuardIntegerDivision()(model).fired == 0
    np.testing.assert_array_equal(session(model).run(None, {"a": a, "b": b})[0], before)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("operator", "attributes"), CASES)
def test_the_smallest_integer_over_minus_one_ends_no_process(operator, attributes, kind, tmp_path):
    model, least = division(operator, kind, **attributes), np.iinfo(kind).min
    code = RUN.format([[int(least), 7], [-1, -1]], kind)

    def ends_with():
        ir.save(model, tmp_path / "model.onnx")
        return subprocess.run([sys.executable, "-c", code, tmp_path / "model.onnx"], check=False).returncode

    assert ends_with() < 0 or attributes
    GuardIntegerDivision()(model)
    assert ends_with() == 0
    (found,) = session(model).run(None, {"a": np.array([least, 7], kind), "b": np.array([-1, -1], kind)})
    assert found.tolist() == ([int(least), -7] if operator == "Div" else [0, 0])


def test_a_divisor_that_is_constant_or_no_integer_is_left_as_it_is():
    model = division("Div")
    constant = ir.tensor(np.array([2]), name="b")
    value = ir.Value(name="c", shape=constant.shape, type=ir.TensorType(constant.dtype), const_value=constant)
    model.graph.initializers.add(value)
    model.graph.node(0).replace_input_with(1, value)
    assert GuardIntegerDivision()(model).fired == 0
    floats = division("Div")
    for one in (*floats.graph.inputs, *floats.graph.outputs):
        one.type = ir.TensorType(ir.DataType.FLOAT)
    assert GuardIntegerDivision()(floats).fired == 0
