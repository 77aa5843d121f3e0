"""int8: the form that is written, what it computes, and which products stay."""

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

from attendant.errors import ExportError, InputError
from export.mixed_precision.feeds import feeds_for
from export.mixed_precision.forms import run_form, run_reference
from export.mixed_precision.source import read_source
from tests.export.mixed_precision.small_graphs import EXACT, SHARED, write_convolving, write_graph
from tests.export.mixed_precision.test_half import convert, kept_of


def test_both_factors_of_products_are_rounded_as_tensorrt_wants_it(tmp_path):
    outcome, model = convert(write_convolving(tmp_path / "conv.onnx"), "int8")
    assert outcome.typed.operators == {"Conv": 1, "Gemm": 1} and not outcome.typed.kept
    assert [check.constraint.name for check in outcome.checks if check.violations] == []
    arrays = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    assert arrays["kernel.int8"].dtype == np.int8 and arrays["kernel.scale"].shape == (4,)
    assert arrays["matrix.scale"].shape == (3,) and arrays["x.activation_scale"].shape == ()
    assert all(not arrays[name].any() for name in arrays if "zero" in name)


def test_what_is_measured_is_what_the_standard_says_that_the_file_computes(tmp_path):
    path = write_convolving(tmp_path / "conv.onnx")
    outcome, model = convert(path, "int8")
    source = read_source(path)
    feeds = feeds_for(source, None, 2, {})
    reference = run_reference(source, feeds.samples, "conv")
    found = run_form(read_source(tmp_path / "conv.int8.onnx"), reference, feeds.samples, "conv")
    for feed, values in zip(feeds.samples, found, strict=True):
        (expected,) = ReferenceEvaluator(model).run(None, feed)
        assert np.allclose(values["y"], expected, atol=2e-5)  # sums of some dozen floats in another order
    assert outcome.worst == pytest.approx(outcome.typed.found.drift_of_all, rel=1e-3)


def test_a_weight_behind_identity_is_a_constant_and_what_has_no_form_is_said(tmp_path):
    matrices = {
        name: np.random.default_rng(1).standard_normal((4, 4)).astype(np.float32) for name in ("matrix", "other")
    }
    path = write_graph(tmp_path / "shared.onnx", SHARED.replace("float[batch, 4] x", "float[4, 4] x"), **matrices)
    outcome, model = convert(path, "int8")
    assert outcome.typed.operators == {"MatMul": 2} and "Identity" not in {node.op_type for node in model.graph.node}
    reasons = {node.name: node.reason for node in outcome.typed.kept}
    assert reasons == {"c": "its weight is no matrix, or is read in another way as well", "d": "within a subgraph"}


@pytest.mark.planted
def test_a_product_whose_scale_fits_no_number_is_kept(tmp_path):
    model = onnx.load(write_convolving(tmp_path / "conv.onnx"))
    outlier = numpy_helper.from_array(np.array([3e4, 1, 1, 1], np.float32), "spread")
    back = numpy_helper.from_array(np.array([1 / 3e4, 1, 1, 1], np.float32), "gather")
    model.graph.initializer.extend([outlier, back])
    gemm = next(node for node in model.graph.node if node.op_type == "Gemm")
    matrix = next(one for one in model.graph.initializer if one.name == "matrix")
    matrix.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(matrix) / np.float32([3e4, 1, 1, 1]), "matrix"))
    spread = onnx.helper.make_node("Mul", ["d", "spread"], ["lopsided"])  # one channel drowns the others
    gemm.input[0] = "lopsided"
    model.graph.node.insert(len(model.graph.node) - 1, spread)
    path = tmp_path / "lopsided.onnx"
    onnx.save(model, path)
    outcome, _ = convert(path, "int8", budget=0.05)
    assert kept_of(outcome).keys() == {"y"} and outcome.worst <= 0.05 < outcome.typed.found.drift_of_all


def test_a_graph_without_products_and_activations_without_end_are_errors(tmp_path):
    with pytest.raises(ExportError, match="MatMul, Gemm or Conv with a constant"):
        convert(write_graph(tmp_path / "exact.onnx", EXACT), "int8")
    text = """
    <ir_version: 10, opset_import: ["" : 21]>
    agraph (float[batch, 2] x) => (float[batch, 2] y) { a = MatMul(x, ones)  y = Reciprocal(a) }
    """
    path = write_graph(tmp_path / "reciprocal.onnx", text, ones=np.ones((2, 2), np.float32))
    np.save(tmp_path / "x.npy", np.full((1, 2), np.inf, np.float32))  # of which 1 / ∞ = 0 is made
    with pytest.raises(InputError, match="every activation is finite"):
        convert(path, "int8", calibration=tmp_path / "x.npy")
