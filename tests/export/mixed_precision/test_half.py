"""Types written into graphs that are hard to type: what is narrow, what stays, and that every number is rounded so."""

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest
from onnx.reference import ReferenceEvaluator

from attendant.errors import ExportError
from export.mixed_precision.convert import convert_file
from export.mixed_precision.feeds import feeds_for
from export.mixed_precision.forms import run_form, run_reference
from export.mixed_precision.operator_types import slots_of_nodes
from export.mixed_precision.request import Request
from export.mixed_precision.simulation import load_simulation, narrow_gates
from export.mixed_precision.source import read_source
from tests.export.mixed_precision.small_graphs import (
    BRANCHING,
    EXACT,
    LOOPING,
    MASKED,
    write_graph,
    write_resizing,
)

LOOSE = 1.0
HALVES = pytest.mark.parametrize("precision", ["fp16", "bf16"])


def convert(path, precision="fp16", **options):
    out = path.with_name(f"{path.stem}.{precision}.onnx")
    settings = {"target": "tensorrt", "sizes": {}, "budget": LOOSE, **options}
    outcome = convert_file(path, out, Request(precision=precision, **settings))
    onnx.checker.check_model(out, full_check=True)
    return outcome, onnx.load(out)


def types_of(model):
    """Value → element type, in every graph."""
    inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True)
    found = {}

    def visit(graph):
        for value in (*graph.input, *graph.output, *graph.value_info):
            found[value.name] = value.type.tensor_type.elem_type
        for tensor in graph.initializer:
            found[tensor.name] = tensor.data_type
        for node in graph.node:
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    visit(attribute.g)

    visit(inferred.graph)
    return found


def kept_of(outcome):
    return {node.name: node.reason for node in outcome.typed.kept}


def test_every_number_is_what_half_precision_computes_bit_for_bit(tmp_path):
    # Sums and products of float16 numbers, rounded once from float32, are float16's own: 24 >= 2 * 11 + 2 bits.
    path = write_graph(tmp_path / "exact.onnx", EXACT)
    _, model = convert(path)
    source = read_source(path)
    feeds = feeds_for(source, None, 2, {"batch": 16})
    reference = run_reference(source, feeds.samples, "exact")
    found = run_form(read_source(tmp_path / "exact.fp16.onnx"), reference, feeds.samples, "exact")
    for feed, values in zip(feeds.samples, found, strict=True):
        (expected,) = ReferenceEvaluator(model).run(None, feed)
        by_hand = feed["x"].astype(np.float16)
        scale = onnx.numpy_helper.to_array(onnx.load(path).graph.initializer[0]).astype(np.float16)
        assert np.array_equal(values["y"], expected)
        assert np.array_equal(values["y"], np.maximum(by_hand * scale + by_hand, 0).astype(np.float32))
        assert not np.array_equal(values["y"], reference.values[0]["y"])


@HALVES
def test_what_the_search_measures_is_what_is_written(tmp_path, precision):
    path = write_graph(tmp_path / "branch.onnx", BRANCHING)
    outcome, _ = convert(path, precision)
    assert outcome.worst == outcome.typed.found.drift_of_all > 0


@HALVES
def test_a_gate_rounds_its_own_operator_alone(tmp_path, precision):
    path = write_graph(tmp_path / "exact.onnx", EXACT)
    source = read_source(path)
    dtype = {"fp16": ir.DataType.FLOAT16, "bf16": ir.DataType.BFLOAT16}[precision]
    feeds = feeds_for(source, None, 1, {})
    reference = run_reference(source, feeds.samples, "exact")
    nodes = narrow_gates(source, slots_of_nodes(source, dtype, None), dtype)
    simulation = load_simulation(source, len(nodes), feeds.samples, reference)
    assert [node.op_type for node in nodes] == ["Mul", "Add", "Relu"]
    assert simulation.drift([]) == 0
    assert all(0 < simulation.drift([gate]) <= simulation.drift([0, 1, 2]) for gate in range(3))


def test_inputs_and_outputs_keep_their_types_unless_asked(tmp_path):
    path = write_graph(tmp_path / "exact.onnx", EXACT)
    _, model = convert(path)
    assert [types_of(model)[name] for name in ("x", "y", "scaled", "sum")] == [1, 1, 10, 10]
    _, model = convert(path, narrow_io=True)
    assert [types_of(model)[name] for name in ("x", "y")] == [10, 10]
    assert "Cast" not in {node.op_type for node in model.graph.node}


def test_masks_of_the_lowest_float_are_bounded_and_a_lost_epsilon_keeps_its_reader(tmp_path):
    path = write_graph(tmp_path / "masked.onnx", MASKED)
    outcome, model = convert(path)
    lost = "float16 has no number for its 1e-12"  # and its result, 1e-12 where a token is masked, would be 0 as well
    assert kept_of(outcome) == {"safe": lost, "y": "alone no finite answer"}
    arrays = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    assert arrays["lowest.float16"] == np.float16(-65504)
    feed = {"x": np.zeros((1, 8), np.float32), "mask": np.array([[1, 1, 0, 0, 0, 0, 0, 0]])}
    (y,) = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, feed)
    assert np.isfinite(y).all() and np.allclose(y[0, :2], np.log(0.5), atol=1e-3)
    outcome, _ = convert(path, "bf16")
    assert kept_of(outcome) == {}


@HALVES
@pytest.mark.parametrize("text", [BRANCHING, LOOPING], ids=["If", "Loop"])
def test_operators_within_subgraphs_are_narrow_between_float32_edges(tmp_path, text, precision):
    path = write_graph(tmp_path / "nested.onnx", text)
    outcome, model = convert(path, precision)
    types, narrow = types_of(model), {"fp16": 10, "bf16": 16}[precision]
    inner = {"t"} if text is BRANCHING else {"halved"}
    assert {types[name] for name in inner} == {narrow}
    control = next(node for node in model.graph.node if node.op_type in ("If", "Loop"))
    graphs = [attribute.g for attribute in control.attribute]
    edges = [value.type.tensor_type.elem_type for graph in graphs for value in (*graph.input, *graph.output)]
    assert set(edges) <= {1, 7, 9} and narrow not in edges
    assert 0 < outcome.worst < 0.02


@HALVES
def test_sizes_are_computed_in_float32_and_inputs_that_are_float32_always_stay_so(tmp_path, precision):
    outcome, model = convert(write_resizing(tmp_path / "resize.onnx"), precision)
    reasons = kept_of(outcome)
    assert {reasons[name] for name in ("sizes", "doubled", "exact")} == {"computes sizes or indices"}
    resize = next(node for node in model.graph.node if node.op_type == "Resize")
    types = types_of(model)
    assert types[resize.input[2]] == 1 and types[resize.input[0]] in (10, 16)


def test_an_operator_that_the_target_has_not_in_the_type_stays(tmp_path):
    path = write_graph(tmp_path / "masked.onnx", MASKED)
    outcome, _ = convert(path, "bf16", target="ort")
    assert kept_of(outcome)["p"] == "ONNX Runtime 1.31.1, CPU provider has no Softmax of bfloat16"
    with pytest.raises(ExportError, match="operators that can be bfloat16; found none: ONNX Runtime"):
        convert(write_graph(tmp_path / "exact.onnx", EXACT), "bf16", target="ort")
