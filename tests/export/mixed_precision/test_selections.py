"""What decides about an output of any type is measured."""

import numpy as np
import onnx
import pytest

from export.mixed_precision.selections import selected_names
from export.mixed_precision.source import read_source
from tests.export.mixed_precision.small_graphs import BRANCHING, write_detecting, write_graph
from tests.export.mixed_precision.test_half import convert, kept_of

SCORED = """
<ir_version: 10, opset_import: ["" : 18]>
agraph (float[n, 4] x) => (float[n, 4] p, {type}[n, 3] y)
<float c = {{1e3}}, float level = {{1e6}}, float step = {{1e5}}>
{{
    a = MatMul(x, w)
    s = Mul(a, c)
    p = Relu(x)
    {ends}
}}
"""
ENDS = {
    "bool": "y = Greater(s, level)",
    "double": "y = Cast <to = 11> (s)",
    "float16": "half = Cast <to = 10> (s)  y = Neg(half)",
    "uint8": "y = QuantizeLinear(s, step)",
    "int64": "y = Cast <to = 7> (s)",
}


def write_scored(path, kind, ends=""):
    text = SCORED.format(type=kind, ends=ends or ENDS[kind])
    return write_graph(path, text, w=np.full((4, 3), 1e3, np.float32))


@pytest.mark.parametrize("precision", ["fp16", "int8"])
@pytest.mark.parametrize("kind", ENDS)
def test_what_an_output_of_another_type_is_made_of_is_measured(tmp_path, kind, precision):
    outcome, _ = convert(write_scored(tmp_path / "scored.onnx", kind), precision, target="ort", budget=0.1)
    assert set(outcome.drift) == {"p", "s"} and outcome.worst < 0.1
    if precision == "fp16":  # s reaches some 10⁶, and fp16 ends at 65504
        assert "s" in kept_of(outcome)


def test_a_graph_without_float32_outputs_is_measured_as_well(tmp_path):
    model = onnx.load(write_scored(tmp_path / "scored.onnx", "bool"))
    del model.graph.output[0]
    onnx.save(model, tmp_path / "hit.onnx")
    outcome, _ = convert(tmp_path / "hit.onnx", target="ort")
    assert outcome.drift.keys() == {"s"} and "s" in kept_of(outcome)


def test_ways_end_at_float32_at_choices_and_at_sizes(tmp_path):
    ends = "high = Greater(s, level)  low = Less(p0, level)  p0 = Neg(a)  any = And(high, low)  y = Not(any)"
    both = write_scored(tmp_path / "both.onnx", "bool", ends)
    assert selected_names(read_source(both))[0] == ["p", "p0", "s"]
    sizes = write_scored(tmp_path / "sizes.onnx", "int64", "shape = Shape(s)  y = Identity(shape)")
    assert selected_names(read_source(sizes))[0] == ["p"]
    detecting = write_detecting(tmp_path / "detecting.onnx")
    assert selected_names(read_source(detecting)) == (["boxes", "all"], ["best"])


def test_what_a_subgraph_decides_is_compared_itself(tmp_path):
    text = BRANCHING.replace("(float[batch, 8] y)", "(float[batch, 8] y, bool[batch, 8] high)").replace(
        "chosen = If", "high, chosen = If"
    )
    text = text.replace("(float[batch, 8] a) {", "(bool[batch, 8] ha, float[batch, 8] a) { ha = Greater(t, x) ")
    text = text.replace("(float[batch, 8] b) {", "(bool[batch, 8] hb, float[batch, 8] b) { hb = Greater(scaled, x) ")
    path = write_graph(tmp_path / "nested.onnx", text)
    assert selected_names(read_source(path))[0] == ["y", "high"]
    assert convert(path)[0].drift["high"] == 0
