"""The pass on a graph that was exported and lowered, and on copies changed so that it must refuse."""

import numpy as np
import onnx_ir as ir
import pytest

from attendant.manifest import Manifest
from export.parity.ladder import climb
from export.parity.parity import rungs_of
from export.passes.ort.lower_cached_attention import lower_cached_attention
from export.passes.ort.rotate_in_attention import rotate_in_attention


@pytest.fixture
def lowered(windowed_language_model):
    model = ir.load(windowed_language_model / "decoder.onnx")
    assert lower_cached_attention(model).fired == 2
    return model


def attentions(model):
    return [node for node in model.graph if node.op_type == "GroupQueryAttention"]


def test_projections_go_straight_into_the_node(lowered):
    outcome = rotate_in_attention(lowered)
    assert (outcome.fired, outcome.refusals, outcome.misses) == (2, (), ())
    for node in attentions(lowered):
        assert [value.producer().op_type for value in node.inputs[:3]] == ["MatMul"] * 3
        assert node.attributes.get_int("do_rotary") == 1
    assert {node.op_type for node in lowered.graph}.isdisjoint({"Cos", "Sin", "Split", "Concat", "Transpose"})


def test_the_tables_are_those_of_every_position(lowered):
    rotate_in_attention(lowered)
    tables = [lowered.graph.initializers[f"rotary.{name}"].const_value.numpy() for name in ("cos", "sin")]
    angles = np.arange(40)[:, None] / 10000 ** (np.arange(0, 16, 2) / 16)
    # An angle of up to 39 is rounded to float32 by half a unit of 24 bits, and so are its cosine and sine.
    np.testing.assert_allclose(tables, [np.cos(angles), np.sin(angles)], rtol=0, atol=(39 + 1) * 2.0**-24)


def test_the_rotated_graph_answers_as_the_module_in_every_split_of_a_decode(windowed_language_model):
    (lowered,) = Manifest.read(windowed_language_model).lowered
    assert [one["fired"] for one in lowered.passes] == [2, 2]
    rungs = {rung.name: rung for rung in rungs_of(climb(windowed_language_model))}
    assert rungs["cached ort-cpu float32"].passed, rungs


def test_a_second_run_fires_nothing(lowered):
    rotate_in_attention(lowered)
    nodes = [node.op_type for node in lowered.graph]
    assert rotate_in_attention(lowered).fired == 0
    assert [node.op_type for node in lowered.graph] == nodes


def test_a_rotation_by_other_angles_is_refused(lowered):
    cosine = next(node for node in lowered.graph if node.op_type == "Cos")
    shifted = ir.node("Neg", [cosine.inputs[0]])
    lowered.graph.insert_before(cosine, shifted)
    cosine.replace_input_with(0, shifted.outputs[0])
    outcome = rotate_in_attention(lowered)
    assert outcome.fired == 0
    assert len(outcome.refusals) == 2
    assert "not turned in halves, by positions times constant frequencies" in outcome.refusals[0]


def test_heads_that_the_node_does_not_rotate_are_refused(language_model):
    model = ir.load(language_model / "decoder.onnx")
    lower_cached_attention(model)
    outcome = rotate_in_attention(model)
    assert (outcome.fired, len(outcome.refusals)) == (0, 2)
    assert "head size 8 is not a multiple of 16" in outcome.refusals[0]
