"""The first node that drifts between two files is named, and harmless differences on the way are not."""

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from attendant.errors import ArtefactError, InputError
from export.mixed_precision.bisect import bisect_files
from export.mixed_precision.request import Request
from tests.export.mixed_precision.small_graphs import (
    CANCELLING,
    EXACT,
    write_convolving,
    write_detecting,
    write_graph,
    write_suppressing,
)
from tests.export.mixed_precision.test_half import convert

REQUEST = Request(precision="fp16", sizes={})


def spoil(path, name, factor):
    """The same file with one constant multiplied."""
    model = onnx.load(path)
    tensor = next(one for one in model.graph.initializer if one.name == name)
    tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor) * np.float32(factor), name))
    spoiled = path.with_name("spoiled.onnx")
    onnx.save(model, spoiled)
    return spoiled


@pytest.mark.planted
@pytest.mark.parametrize(("constant", "node"), [("kernel", "Conv"), ("matrix", "Gemm")])
def test_the_node_with_another_weight_is_named(tmp_path, constant, node):
    path = write_convolving(tmp_path / "conv.onnx")
    found = bisect_files(path, spoil(path, constant, 1.1), REQUEST, 0.01)
    assert found.culprit.operator == node and len(found.values) == 5 and found.unmatched == 0


def test_two_equal_files_do_not_drift(tmp_path):
    path = write_convolving(tmp_path / "conv.onnx")
    found = bisect_files(path, spoil(path, "kernel", 1.0), REQUEST, 1e-9)
    assert found.culprit is None and found.worst.drift == 0


def test_the_precision_that_loses_a_sum_is_bisected_to_it_and_the_file_that_keeps_it_drifts_nowhere(tmp_path):
    path = write_graph(tmp_path / "cancel.onnx", CANCELLING)
    found = bisect_files(path, None, REQUEST, 0.01)
    assert (found.culprit.value, found.second) == ("lifted", "fp16")
    convert(path, "fp16", budget=0.005)
    assert bisect_files(path, tmp_path / "cancel.fp16.onnx", REQUEST, 0.01).culprit is None


@pytest.mark.planted
def test_a_drift_that_reaches_no_output_is_none(tmp_path):
    text = EXACT.replace("y = Relu(sum)", "lost = Mul(sum, other)  y = Relu(x)").replace(
        ">\n{", ", float other = {2.0}>\n{"
    )
    path = write_graph(tmp_path / "lost.onnx", text)
    found = bisect_files(path, spoil(path, "other", 2.0), REQUEST, 0.01)
    assert found.culprit is None and found.worst.value == "lost" and found.worst.drift > 0.1


def test_another_order_of_what_is_chosen_is_no_drift(tmp_path):
    path = write_detecting(tmp_path / "detect.onnx")
    outcome, _ = convert(path, "bf16")
    assert set(outcome.drift) == {"all", "boxes"} and outcome.worst < 0.02
    assert bisect_files(path, tmp_path / "detect.bf16.onnx", REQUEST, 0.02).culprit is None


def test_boxes_that_are_suppressed_otherwise_are_no_drift(tmp_path):
    path = write_suppressing(tmp_path / "suppress.onnx")
    outcome, model = convert(path, "bf16")
    assert set(outcome.drift) == {"absolute", "scores", "boxes"} and outcome.worst < 0.02
    assert {node.operator: node.reason for node in outcome.typed.kept} == {
        "NonMaxSuppression": "NonMaxSuppression of opset 22 takes no bfloat16"
    }
    suppression = next(node for node in model.graph.node if node.op_type == "NonMaxSuppression")
    assert list(suppression.input[:2]) == ["absolute.float", "scores.float"]


def test_graphs_of_other_inputs_or_other_names_cannot_be_compared(tmp_path):
    path, other = write_convolving(tmp_path / "conv.onnx"), write_detecting(tmp_path / "detect.onnx")
    model = onnx.load(other)
    model.graph.input[0].name = model.graph.node[0].input[0] = "z"
    onnx.save(model, other)
    with pytest.raises(InputError, match=r"the inputs \['x'\] in both graphs"):
        bisect_files(path, other, REQUEST, 0.01)
    model = onnx.load(path)
    for node in model.graph.node:
        node.output[0] += "_"
        node.input[0] += "_" * (node.input[0] != "x")
    model.graph.output[0].name += "_"
    onnx.save(model, other)
    with pytest.raises(InputError, match="values of one name"):
        bisect_files(path, other, REQUEST, 0.01)


@pytest.mark.parametrize(("kind", "at"), [("initializer", 0), ("node", 0), ("node", -1)])
def test_a_value_that_nothing_gives_is_named(tmp_path, kind, at):
    path = write_convolving(tmp_path / "conv.onnx")
    model = onnx.load(path)
    del getattr(model.graph, kind)[at]
    onnx.save(model, path)
    with pytest.raises(
        ArtefactError, match=r"expected '\w+' of .*conv.onnx as an input, a weight or an output; found no"
    ):
        bisect_files(path, None, REQUEST, 0.01)
