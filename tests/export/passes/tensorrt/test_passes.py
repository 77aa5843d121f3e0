"""The passes to TensorRT's form: how often each fires, what numbers it changes, and the constraint that rests on it."""

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from attendant.manifest import Manifest
from export.graph.exported_graph import ExportedGraph
from export.passes.quantise.quantise_weights import QuantiseWeights
from export.passes.quantise.quantise_weights_only import QuantiseWeightsOnly
from export.passes.tensorrt.allow_decomposition import AllowDecomposition, without_decomposition
from export.passes.tensorrt.drop_softmax_precision import DropSoftmaxPrecision
from export.passes.tensorrt.passes import PASSES
from export.passes.tensorrt.scale_queries import ScaleQueries
from export.passes.tensorrt.widen_recurrence import WidenRecurrence
from export.targets.check import validate
from export.targets.constraints.graph import Graph
from export.targets.targets import TARGETS
from tests.export.passes.layers import session

FIRES = {
    "dates-transformer": {DropSoftmaxPrecision: 4, ScaleQueries: 4, AllowDecomposition: 4},
    "gru-seq2seq-tiny": {WidenRecurrence: 1},
}
NEEDED_BY = {
    DropSoftmaxPrecision: "attention-softmax-precision",
    ScaleQueries: "attention-scale",
    WidenRecurrence: "recurrent-type",
    AllowDecomposition: "attention-decomposable",
}


@pytest.fixture
def decoder(exported):
    """Reads the decoder of an artefact, in a precision."""

    def read(name, precision):
        folder = exported(name, precision=precision)
        return ExportedGraph.read(folder, Manifest.read(folder).graph("decoder")).copy()

    return read


def violated(graph, path):
    ir.save(graph.model, path)
    checks = validate(Graph(path, graph.signature), TARGETS["tensorrt"])
    return {check.constraint.name for check in checks if check.violations}


@pytest.mark.parametrize("name", FIRES)
@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_each_pass_fires_as_often_as_there_are_places_and_a_second_time_nowhere(name, precision, decoder, tmp_path):
    graph = decoder(name, precision)
    done = [(type(one), one(graph.model)) for one in PASSES]
    assert {kind: result.fired for kind, result in done if result.fired} == FIRES[name]
    assert not any(result.refused or result.missed for _, result in done)
    assert [one(graph.model).fired for one in PASSES] == [0] * len(PASSES)
    assert violated(graph, tmp_path / "decoder.onnx") == set()


@pytest.mark.planted
@pytest.mark.parametrize("left_out", NEEDED_BY)
def test_without_one_pass_its_constraint_is_violated_and_no_other(left_out, decoder, tmp_path):
    graph = decoder("gru-seq2seq-tiny" if left_out is WidenRecurrence else "dates-transformer", "fp16")
    for one in PASSES:
        if not isinstance(one, left_out):
            one(graph.model)
    assert violated(graph, tmp_path / "decoder.onnx") == {NEEDED_BY[left_out]}


@pytest.mark.planted
def test_scales_of_either_sign_are_violations_and_those_of_weights_only_are_not(decoder, tmp_path):
    found = []
    for quantise in (QuantiseWeights(block_size=64), QuantiseWeightsOnly(bits=4)):
        graph = decoder("dates-transformer", "fp32")
        for one in (quantise, *PASSES):
            one(graph.model)
        found.append(violated(graph, tmp_path / "decoder.onnx"))
    assert found == [{"scale-sign"}, set()]


def attention(size, kind, attributes=""):
    text = (
        f'<ir_version: 10, opset_import: ["" : 24]> g ({kind}[B,2,S,{size}] q, {kind}[B,2,T,{size}] k) '
        f"=> ({kind}[B,2,S,{size}] y) {{ y = Attention {attributes} (q, k, k) }}"
    )
    return ir.from_proto(onnx.parser.parse_model(text))


@pytest.mark.parametrize(
    ("size", "kind", "operators"),
    [
        (64, "bfloat16", ["Mul", "Attention"]),
        (16, "float16", ["Mul", "Attention"]),
        (8, "float", ["Mul", "Attention"]),
        (8, "float16", ["Cast", "Mul", "Cast", "Attention"]),
        (12, "bfloat16", ["Cast", "Mul", "Cast", "Attention"]),
    ],
)
def test_queries_are_multiplied_in_their_own_type_where_that_is_exact_and_else_in_float32(size, kind, operators):
    model = attention(size, kind)
    assert ScaleQueries()(model).fired == 1
    assert [node.op_type for node in model.graph] == operators
    factor = next(iter(model.graph.initializers.values())).const_value.numpy()
    assert float(factor) == (size**-0.5 if operators[0] == "Mul" and kind != "float" else np.float32(size**-0.5))


@pytest.mark.parametrize("attributes", ["", "<scale = 0.25>", "<scale = 3.0>"])
@pytest.mark.parametrize("kind", ["float", "float16"])
def test_scaled_queries_give_what_scaled_scores_gave(attributes, kind):
    dtype = np.float32 if kind == "float" else np.float16
    draw = np.random.default_rng(0)
    feeds = {"q": draw.normal(size=(2, 2, 5, 8)).astype(dtype), "k": draw.normal(size=(2, 2, 7, 8)).astype(dtype)}
    model = attention(8, kind, attributes)
    before = session(model).run(None, feeds)[0]
    ScaleQueries()(model)
    after = session(model).run(None, feeds)[0]
    assert np.abs(before - after).max() <= 8 * np.finfo(dtype).eps * np.abs(before).max()


def test_a_scale_of_1_is_left_alone_and_heads_of_an_unknown_size_are_missed():
    assert ScaleQueries()(attention(8, "float", "<scale = 1.0>")).fired == 0
    model = attention("D", "float")
    assert ScaleQueries()(model).missed == ["y: the size of its heads is not known"]


def test_a_recurrent_layer_in_float32_adds_up_narrow_numbers_and_rounds_once():
    text = (
        '<ir_version: 10, opset_import: ["" : 24]> g (float16[S,B,3] x, float16[1,B,4] h) '
        "=> (float16[S,1,B,4] y, float16[1,B,4] last) { y, last = GRU <hidden_size = 4> (x, w, r, , , h) }"
    )
    draw = np.random.default_rng(1)
    weights = {"w": draw.normal(size=(1, 12, 3)), "r": draw.normal(size=(1, 12, 4))}
    proto = onnx.parser.parse_model(text)
    for name, values in weights.items():
        proto.graph.initializer.append(onnx.numpy_helper.from_array(values.astype(np.float16), name))
    model = ir.from_proto(proto)
    assert WidenRecurrence()(model).fired == 1
    (layer,) = [node for node in model.graph if node.op_type == "GRU"]
    assert {value.dtype for value in (*layer.inputs, *layer.outputs) if value is not None} == {ir.DataType.FLOAT}
    assert set(model.graph.initializers) == {"w.float32", "r.float32"}
    assert [value.dtype for value in model.graph.outputs] == [ir.DataType.FLOAT16] * 2
    for tensor in proto.graph.initializer:
        wide = onnx.numpy_helper.to_array(tensor).astype(np.float32)
        tensor.CopyFrom(onnx.numpy_helper.from_array(wide, tensor.name))
    for value in (*proto.graph.input, *proto.graph.output):
        value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    feeds = {"x": draw.normal(size=(5, 2, 3)).astype(np.float16), "h": draw.normal(size=(1, 2, 4)).astype(np.float16)}
    wide = session(ir.from_proto(proto)).run(None, {name: value.astype(np.float32) for name, value in feeds.items()})
    for found, exact in zip(session(model).run(None, feeds), wide, strict=True):
        np.testing.assert_array_equal(found, exact.astype(np.float16))


def test_the_last_pass_leaves_the_standard_and_without_its_attribute_the_graph_is_back():
    model = attention(8, "float")
    before = ir.to_proto(model)
    AllowDecomposition()(model)
    with pytest.raises(onnx.checker.ValidationError, match="TRT_decomposable"):
        onnx.checker.check_model(ir.to_proto(model), full_check=True)
    assert ir.to_proto(without_decomposition(model)) == before


def test_what_softmax_is_computed_in_is_no_longer_said():
    model = attention(16, "float16", "<softmax_precision = 1>")
    assert DropSoftmaxPrecision()(model).fired == 1
    assert "softmax_precision" not in next(iter(model.graph)).attributes
