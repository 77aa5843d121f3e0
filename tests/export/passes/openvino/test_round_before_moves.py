"""Rounding before numbers are moved: the same integers, of which a quarter of the bytes are moved."""

import onnx_ir as ir
import pytest
from onnx_ir.tape import Tape

from export.passes.match.moves import before_moves
from export.passes.openvino.gather_windows import GatherWindows
from export.passes.openvino.normalise_rows import NormaliseRows
from export.passes.openvino.round_before_moves import RoundBeforeMoves
from export.passes.quantise.quantise_static import QuantiseStatic, calibrated_values
from tests.export.passes.images import logits, operators


@pytest.fixture
def rounded(explained_swin):
    """The shipped Swin in static int8, with one range for everything."""
    model = ir.load(explained_swin / "model.onnx")
    QuantiseStatic({str(value.name): 6.0 for value in calibrated_values(model.graph)})(model)
    GatherWindows()(model)
    NormaliseRows()(model)
    return model


def moved_norm(node):
    """The moves between a norm and what rounds it; none where they are of something else."""
    value, moves = before_moves(node.inputs[0])
    return moves if (value.producer() or node).op_type == "LayerNormalization" else []


def test_norms_are_rounded_where_they_are_computed_and_answers_keep_their_bits(rounded):
    before = logits(rounded)
    assert RoundBeforeMoves()(rounded).fired > 0
    assert (logits(rounded) == before).all()  # the same operations on the same numbers
    norms = [node.outputs[0] for node in rounded.graph if node.op_type == "LayerNormalization"]
    by = [[reader.op_type for reader in norm.consumers()] for norm in norms]
    assert by.count(["QuantizeLinear"]) >= 2 * operators(rounded).count("Attention")


def test_a_second_run_fires_nothing(rounded):
    RoundBeforeMoves()(rounded)
    before = operators(rounded)
    assert RoundBeforeMoves()(rounded).fired == 0
    assert operators(rounded) == before


def test_what_attention_returns_is_rounded_behind_its_moves(rounded):
    RoundBeforeMoves()(rounded)
    attended = [next(iter(node.outputs[0].consumers())) for node in rounded.graph if node.op_type == "Attention"]
    assert attended and all(node.op_type == "Reshape" for node in attended)


def test_numbers_that_others_read_where_they_were_moved_stay(rounded):
    fired = RoundBeforeMoves()(rounded.clone()).fired
    chains = (before_moves(node.inputs[0]) for node in rounded.graph if node.op_type == "QuantizeLinear")
    moved = next(moves[0].outputs[0] for value, moves in chains if moves and value.producer().op_type[:5] == "Layer")
    read = Tape(rounded.graph).op("ReduceMax", [moved], {"keepdims": 0})
    read.name, read.shape, read.type = "largest", ir.Shape(()), ir.TensorType(ir.DataType.FLOAT)
    rounded.graph.outputs.append(read)
    assert RoundBeforeMoves()(rounded).fired == fired - 1


def test_a_rounding_that_is_an_output_keeps_its_name(rounded):
    before = RoundBeforeMoves()(rounded.clone()).fired
    made = next(node.outputs[0] for node in rounded.graph if node.op_type == "QuantizeLinear" and moved_norm(node))
    rounded.graph.outputs.append(made)
    names = [value.name for value in rounded.graph.outputs]
    assert RoundBeforeMoves()(rounded).fired == before
    assert [value.name for value in rounded.graph.outputs] == names


def test_numbers_that_are_an_output_where_they_were_moved_stay(rounded):
    fired = RoundBeforeMoves()(rounded.clone()).fired
    node = next(node for node in rounded.graph if node.op_type == "QuantizeLinear" and moved_norm(node))
    rounded.graph.outputs.append(moved_norm(node)[0].outputs[0])
    assert RoundBeforeMoves()(rounded).fired == fired - 1
