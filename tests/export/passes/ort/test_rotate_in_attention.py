"""The pass on a graph that was exported and lowered, and on copies changed so that it must refuse."""

import numpy as np
import onnx_ir as ir
import pytest

from attendant.manifest import Manifest
from export.parity.check import check_parity
from export.parity.parity import levels_of
from export.passes.ort.lower_cached_attention import LowerCachedAttention
from export.passes.ort.rotate_in_attention import RotateInAttention


@pytest.fixture
def lowered(windowed_language_model):
    model = ir.load(windowed_language_model / "decoder.onnx")
    assert LowerCachedAttention()(model).fired == 2
    return model


def attentions(model):
    return [node for node in model.graph if node.op_type == "GroupQueryAttention"]


def test_projections_go_straight_into_the_node(lowered):
    outcome = RotateInAttention()(lowered)
    assert (outcome.fired, outcome.refused, outcome.missed) == (2, [], [])
    for node in attentions(lowered):
        assert [value.producer().op_type for value in node.inputs[:3]] == ["MatMul"] * 3
        assert node.attributes.get_int("do_rotary") == 1
    assert {node.op_type for node in lowered.graph}.isdisjoint({"Cos", "Sin", "Split", "Concat", "Transpose"})


def test_the_tables_are_those_of_every_position(lowered):
    RotateInAttention()(lowered)
    tables = [lowered.graph.initializers[f"rotary.{name}"].const_value.numpy() for name in ("cos", "sin")]
    angles = np.arange(40)[:, None] / 10000 ** (np.arange(0, 16, 2) / 16)
    # An angle of up to 39 is rounded to float32 by half a unit of 24 bits, and so are its cosine and sine.
    np.testing.assert_allclose(tables, [np.cos(angles), np.sin(angles)], rtol=0, atol=(39 + 1) * 2.0**-24)


def test_the_rotated_graph_answers_as_the_module_in_every_split_of_a_decode(windowed_language_model):
    (lowered,) = (one for one in Manifest.read(windowed_language_model).lowered if one.target == "ort-cpu")
    assert [one["fired"] for one in lowered.passes] == [2, 2]
    levels = {level.name: level for level in levels_of(check_parity(windowed_language_model))}
    assert levels["cached ort-cpu float32"].passed, levels


def test_a_second_run_fires_nothing(lowered):
    RotateInAttention()(lowered)
    nodes = [node.op_type for node in lowered.graph]
    assert RotateInAttention()(lowered).fired == 0
    assert [node.op_type for node in lowered.graph] == nodes


def test_a_rotation_by_other_angles_is_refused(lowered):
    cosine = next(node for node in lowered.graph if node.op_type == "Cos")
    shifted = ir.node("Neg", [cosine.inputs[0]])
    lowered.graph.insert_before(cosine, shifted)
    cosine.replace_input_with(0, shifted.outputs[0])
    outcome = RotateInAttention()(lowered)
    assert outcome.fired == 0
    assert len(outcome.refused) == 2
    assert "not turned in halves, by positions times constant frequencies" in outcome.refused[0]


def test_heads_that_the_node_does_not_rotate_are_refused(language_model):
    model = ir.load(language_model / "decoder.onnx")
    LowerCachedAttention()(model)
    outcome = RotateInAttention()(model)
    assert (outcome.fired, len(outcome.refused)) == (0, 2)
    assert "head size 8 is not a multiple of 16" in outcome.refused[0]
