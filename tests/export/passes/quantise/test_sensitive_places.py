import json

import onnx_ir as ir
import pytest
from onnx_ir.passes.common import ShapeInferencePass

from export.passes.quantise.sensitive_places import COSTLY, PLACES, RECORD, WORTH, savings, sensitive_places
from tests.export.passes.quantise.test_lower_precision import BRAIN, HALF, model_of


def found(place, model):
    ShapeInferencePass()(model)
    return {node.outputs[0].name for node in PLACES[place](model.graph)}


def test_the_residual_stream_is_sums_of_computed_values_and_norms():
    model = model_of(
        "a = Relu(x) b = Add(a, w) c = Add(b, a) y = LayerNormalization(c, w)", "float[4] w = {1.0, 2.0, 3.0, 4.0}"
    )
    assert found("residual stream", model) == {"c", "y"}
    assert found("biases", model) == {"b"}


def test_angles_reach_back_to_the_positions():
    model = model_of(
        "f = Cast <to = 1> (i) a = Mul(f, w) c = Cos(a) y = Mul(x, c)",
        "float[4] w = {1.0, 2.0, 3.0, 4.0}",
        "float[N,4] x, int64[N,4] i",
    )
    assert found("angles", model) == {"f", "a", "c"}


def test_an_alignment_reaches_back_to_the_products_of_its_scores():
    model = model_of("a = MatMul(x, x) b = Tanh(a) y = Softmax(b)", inputs="float[4,4] x", outputs="float[4,4] y")
    assert found("alignment", model) == {"b", "y"}


def test_cosines_are_lengths_and_the_divisions_by_them():
    model = model_of("n = ReduceL2(x, d) c = Clip(n, e) y = Div(x, c)", "float e = {1e-6}, int64[1] d = {1}")
    assert found("cosines", model) == {"n", "c", "y"}


def test_logits_are_the_last_sum_and_the_product_before_it():
    model = model_of(
        "a = MatMul(x, v) y = Add(a, w)", "float[4] w = {1.0, 2.0, 3.0, 4.0}", "float[N,4] x, float[4,4] v"
    )
    assert found("logits", model) == {"a", "y"}


@pytest.mark.parametrize("dtype", [HALF, BRAIN])
def test_what_is_kept_was_measured_to_be_worth_it_and_says_what_it_saves(dtype):
    saved = savings(dtype)
    assert saved.keys() == PLACES.keys()
    worth = {place for place, share in saved.items() if share >= WORTH} - COSTLY
    assert worth >= {"residual stream", "angles"}
    model = model_of(
        "a = Cos(x) b = Add(a, a) c = MatMul(b, b) y = Softmax(c)", inputs="float[4,4] x", outputs="float[4,4] y"
    )
    ShapeInferencePass()(model)
    kept = sensitive_places(dtype)(model.graph)
    assert {why.split(",")[0] for why in kept.values()} <= worth
    assert {node.op_type: why for node, why in kept.items()} == {
        "Cos": f"angles, {saved['angles']:.0%} less drift",
        "Add": f"residual stream, {saved['residual stream']:.0%} less drift",
    }


def test_every_shipped_checkpoint_was_measured_in_both_types():
    from models.checkpoints.place import shipped_names

    record = json.loads(RECORD.read_text())
    assert record.keys() == {"float16", "bfloat16"}
    assert all(set(shipped_names()) <= one["drift"].keys() for one in record.values())


def test_every_place_is_found_in_some_exported_graph(language_model, tiny_translator):
    graphs = [
        ir.load(path).graph for folder in (language_model, tiny_translator) for path in folder.glob("*coder.onnx")
    ]
    assert all(
        any(any(True for _ in PLACES[place](graph)) for graph in graphs) for place in ("angles", "residual stream")
    )
