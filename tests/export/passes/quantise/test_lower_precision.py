"""The pass on small graphs written by hand, where every Cast can be counted, and on graphs that were exported."""

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx_ir.passes import PreconditionError

from export.passes.quantise.lower_precision import LowerPrecision
from export.passes.quantise.sensitive_places import sensitive_places

HALF, BRAIN, FULL = ir.DataType.FLOAT16, ir.DataType.BFLOAT16, ir.DataType.FLOAT
NARROW = [HALF, BRAIN]


def model_of(body, weights="", inputs="float[N,4] x", outputs="float[N,4] y"):
    text = f'<ir_version: 11, opset_import: ["" : 24]> g ({inputs}) => ({outputs}) <{weights}> {{ {body} }}'
    return ir.from_proto(onnx.parser.parse_model(text))


def operators(*names):
    return lambda graph: {node: "by name" for node in graph if node.op_type in names}


def lowered(model, *kept, dtype=HALF, narrow=()):
    outcome = LowerPrecision(dtype, narrow, operators(*kept))(model)
    onnx.checker.check_model(ir.to_proto(model), full_check=True)
    return outcome


def chain(model):
    return [node.op_type for node in model.graph]


def types(model):
    return {value.name: value.dtype for node in model.graph for value in node.outputs}


@pytest.mark.parametrize("dtype", NARROW)
def test_inputs_and_outputs_keep_their_type_and_all_between_is_narrow(dtype):
    model = model_of("h = Relu(x) y = Tanh(h)")
    outcome = lowered(model, dtype=dtype)
    assert (outcome.fired, outcome.kept, outcome.missed) == (2, [], [])
    assert chain(model) == ["Cast", "Relu", "Tanh", "Cast"]
    assert {types(model)["h"], model.graph.inputs[0].dtype, model.graph.outputs[0].dtype} == {dtype, FULL}
    assert model.graph.outputs[0].name == "y"


def test_named_inputs_and_outputs_are_narrow_too():
    model = model_of("y = Relu(x)")
    lowered(model, narrow={"x", "y"})
    assert chain(model) == ["Relu"]
    assert model.graph.inputs[0].dtype == model.graph.outputs[0].dtype == HALF


def test_a_kept_operator_stands_between_casts_and_is_named():
    model = model_of("a = Relu(x) b = Exp(a) y = Tanh(b)")
    outcome = lowered(model, "Exp")
    assert chain(model) == ["Cast", "Relu", "Cast", "Exp", "Cast", "Tanh", "Cast"]
    assert outcome.kept == ["b (Exp): by name"]


def test_nothing_is_rounded_between_kept_operators_not_even_where_numbers_are_moved():
    model = model_of("a = Exp(x) b = Transpose <perm = [0, 1]> (a) y = Log(b)")
    outcome = lowered(model, "Exp", "Log")
    assert outcome.fired == 0
    assert chain(model) == ["Exp", "Transpose", "Log"]


def test_a_value_is_cast_once_for_all_who_read_it():
    model = model_of("a = Exp(x) b = Relu(a) c = Tanh(a) y = Add(b, c)")
    lowered(model, "Exp")
    assert chain(model).count("Cast") == 2, "a, and y"


def test_a_value_that_is_kept_and_returned_narrow_and_read_has_one_cast():
    model = model_of("y = Exp(x) z = Relu(y)", outputs="float[N,4] y, float[N,4] z")
    lowered(model, "Exp", narrow={"y", "z"})
    assert chain(model) == ["Exp", "Cast", "Relu"]
    assert [value.name for value in model.graph.outputs] == ["y", "z"]


def test_a_second_run_fires_nothing():
    model = model_of("a = Exp(x) b = Mul(a, w) y = Tanh(b)", "float[4] w = {1.0, 2.0, 3.0, 4.0}")
    lowered(model, "Exp")
    before = ir.to_proto(model).SerializeToString()
    assert lowered(model, "Exp").fired == 0
    assert ir.to_proto(model).SerializeToString() == before


@pytest.mark.parametrize("artefact", ["tiny_translator", "tiny_classifier", "language_model"])
@pytest.mark.parametrize("dtype", NARROW)
def test_a_second_run_over_an_exported_graph_fires_nothing(artefact, dtype, request):
    for path in request.getfixturevalue(artefact).glob("*.onnx"):
        if "ort-cpu" not in path.name:
            model = ir.load(path)
            assert LowerPrecision(dtype, (), sensitive_places(dtype))(model).fired > 5
            assert LowerPrecision(dtype, (), sensitive_places(dtype))(model).fired == 0


def test_weights_keep_their_names_and_a_tied_one_stays_one():
    model = model_of(
        "e = Gather(w, i) p = Transpose <perm = [1, 0]> (w) y = MatMul(e, p)",
        f"float[5,4] w = {{{', '.join(['0.5'] * 20)}}}",
        "int64[N] i",
        "float[N,5] y",
    )
    lowered(model)
    assert {name: value.dtype for name, value in model.graph.initializers.items()} == {"w": HALF}
    assert model.graph.initializers["w"].const_value.numpy().dtype == np.float16


def test_weights_are_read_when_they_are_written():
    model = model_of("y = Mul(x, w)", "float[4] w = {1.0, 2.0, 3.0, 4.0}")
    lowered(model)
    assert isinstance(model.graph.initializers["w"].const_value, ir.LazyTensor)


@pytest.mark.parametrize(("dtype", "kept"), [(HALF, True), (BRAIN, False)])
def test_an_operator_whose_epsilon_the_type_has_no_number_for_is_kept(dtype, kept):
    model = model_of("a = Max(x, e) y = Relu(a)", "float e = {1e-12}")
    outcome = lowered(model, dtype=dtype)
    assert outcome.kept == (["a (Max): float16 has no number for its 1e-12"] if kept else [])


def test_a_small_number_among_many_keeps_nothing():
    model = model_of("y = Add(x, b)", "float[4] b = {1e-7, 2.0, 3.0, 4.0}")
    assert lowered(model).kept == []


def test_a_number_that_is_too_large_becomes_the_largest_and_infinity_stays():
    model = model_of("y = Add(x, b)", "float[4] b = {-3.4e38, 1e6, 1.0, 2.0}")
    lowered(model)
    assert model.graph.initializers["b"].const_value.numpy().tolist() == [-65504.0, 65504.0, 1.0, 2.0]
    weight = model_of("y = Add(x, b)", "float[4] b = {1.0, 1.0, 1.0, 1.0}")
    infinite = ir.tensor(np.float32([-np.inf] * 4), name="b")
    weight.graph.initializers["b"].const_value = infinite
    lowered(weight)
    assert np.isneginf(weight.graph.initializers["b"].const_value.numpy()).all()


def test_a_small_constant_of_narrow_and_kept_operators_is_stored_for_each():
    model = model_of("a = Mul(x, s) y = Div(a, s)", "float s = {3.0}")
    lowered(model, "Div")
    assert {name: value.dtype for name, value in model.graph.initializers.items()} == {"s": FULL, "s.float16": HALF}


def test_a_weight_of_narrow_and_kept_operators_is_stored_once():
    model = model_of(
        "a = Mul(x, w) y = Div(a, w)",
        f"float[1,80] w = {{{', '.join(['2.0'] * 80)}}}",
        "float[N,80] x",
        "float[N,80] y",
    )
    lowered(model, "Div")
    assert [value.dtype for value in model.graph.initializers.values()] == [HALF]


def test_attention_asks_for_its_softmax_in_float32():
    model = model_of("y = Attention(q, q, q)", inputs="float[1,2,3,4] q", outputs="float[1,2,3,4] y")
    lowered(model)
    (node,) = (node for node in model.graph if node.op_type == "Attention")
    assert node.attributes.get_int("softmax_precision") == FULL.value


def test_a_cast_to_float32_becomes_one_to_the_narrow_type():
    model = model_of("f = Cast <to = 1> (i) y = Relu(f)", inputs="int64[N,4] i")
    lowered(model)
    assert [node.attributes.get_int("to") for node in model.graph if node.op_type == "Cast"] == [HALF.value, FULL.value]


def test_a_graph_inside_a_graph_breaks_the_precondition():
    body = "y = If (c) <then_branch = t () => (float[N,4] a) { a = Relu(x) }, "
    body += "else_branch = e () => (float[N,4] b) { b = Tanh(x) }>"
    model = model_of(body, inputs="float[N,4] x, bool c")
    with pytest.raises(PreconditionError) as refused:
        LowerPrecision(HALF, (), operators())(model)
    assert "one in y (If)" in str(refused.value.__cause__)
