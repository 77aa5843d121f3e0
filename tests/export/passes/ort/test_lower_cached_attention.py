"""The pass on graphs that were exported, and on copies changed so that it must refuse or miss."""

import onnx_ir as ir
import pytest

from export.passes.ort.lower_cached_attention import DOMAIN, LowerCachedAttention


@pytest.fixture
def decoder(tiny_translator):
    """A decoder of two blocks, each with an attention over a cache and one over the source."""
    return ir.load(tiny_translator / "decoder.onnx")


def count(model, operator):
    return sum(node.op_type == operator for node in model.graph)


def cached(model):
    """The first attention over a cache."""
    return next(node for node in model.graph if node.op_type == "Attention" and node.inputs[3].name == "self_mask")


def signature(model):
    return [
        [(value.name, value.dtype, value.shape) for value in values]
        for values in (model.graph.inputs, model.graph.outputs)
    ]


def test_every_attention_over_a_cache_becomes_one_node_and_the_tensors_stay(decoder):
    before = signature(decoder)
    outcome = LowerCachedAttention()(decoder)
    assert (outcome.fired, outcome.refused, outcome.missed) == (2, [], [])
    assert count(decoder, "GroupQueryAttention") == 2
    assert count(decoder, "Attention") == 2, "those over the source"
    assert count(decoder, "TensorScatter") == count(decoder, "Slice") == 0
    assert signature(decoder) == before
    assert decoder.graph.opset_imports[DOMAIN] == 1


def test_nothing_stands_between_a_projection_and_the_node_where_heads_need_no_turning(decoder):
    LowerCachedAttention()(decoder)
    (node, *_) = (node for node in decoder.graph if node.op_type == "GroupQueryAttention")
    assert {value.producer().op_type for value in node.inputs[:3]} == {"Add"}, "of each projection's bias"
    assert {user.op_type for user in node.outputs[0].consumers()} == {"MatMul"}, "the projection of the output"


def test_heads_that_were_turned_are_laid_out_for_the_node(language_model):
    model = ir.load(language_model / "decoder.onnx")
    outcome = LowerCachedAttention()(model)
    assert outcome.fired == 2, outcome
    (node, *_) = (node for node in model.graph if node.op_type == "GroupQueryAttention")
    queries, keys, values = (value.producer().op_type for value in node.inputs[:3])
    assert (queries, keys) == ("Reshape", "Reshape")
    assert values == "MatMul", "values are not rotated"


def test_a_window_becomes_the_nodes_own(windowed_language_model):
    model = ir.load(windowed_language_model / "decoder.onnx")
    assert LowerCachedAttention()(model).fired == 2
    nodes = [node for node in model.graph if node.op_type == "GroupQueryAttention"]
    assert [node.attributes.get_int("local_window_size") for node in nodes] == [4, 4]
    assert count(model, "And") == 0


def test_a_second_run_fires_nothing(decoder):
    LowerCachedAttention()(decoder)
    nodes = [node.op_type for node in decoder.graph]
    assert LowerCachedAttention()(decoder).fired == 0
    assert [node.op_type for node in decoder.graph] == nodes


def test_a_mask_of_its_own_is_refused_and_the_other_block_is_lowered(decoder):
    node = cached(decoder)
    mask = ir.node("And", [node.inputs[3], node.inputs[3]])
    decoder.graph.insert_before(node, mask)
    node.replace_input_with(3, mask.outputs[0])
    outcome = LowerCachedAttention()(decoder)
    assert outcome.fired == 1
    assert outcome.refused == [
        f"{node.outputs[0].name}: its mask is neither the graph's self_mask nor a window of it: a bias"
    ]
    assert outcome.missed == []


def test_a_head_size_that_the_node_lacks_is_refused(decoder):
    for value in decoder.graph.inputs:
        if value.name.startswith("self_0"):
            value.shape = ir.Shape([*value.shape[:3], 12])
    outcome = LowerCachedAttention()(decoder)
    assert (outcome.fired, len(outcome.refused)) == (0, 2)
    assert "head size 12 is not a multiple of 8" in outcome.refused[0]
    assert DOMAIN not in decoder.graph.opset_imports


def test_values_from_nowhere_are_a_miss(decoder):
    node = cached(decoder)
    values = ir.node("Identity", [node.inputs[2]])
    decoder.graph.insert_before(node, values)
    node.replace_input_with(2, values.outputs[0])
    outcome = LowerCachedAttention()(decoder)
    assert (outcome.fired, outcome.refused) == (1, [])
    assert outcome.missed == [f"{node.outputs[0].name}: its values come out of no TensorScatter"]


def test_a_graph_without_a_cache_stays_as_it_is(tiny_translator):
    encoder = ir.load(tiny_translator / "encoder.onnx")
    nodes = [node.op_type for node in encoder.graph]
    assert LowerCachedAttention()(encoder).fired == 0
    assert [node.op_type for node in encoder.graph] == nodes
