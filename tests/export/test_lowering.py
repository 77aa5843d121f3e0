import onnx_ir as ir
import pytest

from export.lowering import lowered_graphs
from models.errors import ExportError
from models.manifest import Manifest


def test_an_artefact_holds_the_lowered_decoder_beside_the_standards_and_says_what_was_done(tiny_translator):
    (lowered,) = Manifest.read(tiny_translator).lowered
    assert (lowered.graph, lowered.target, lowered.file) == ("decoder", "ort-cpu", "decoder.ort-cpu.onnx")
    assert lowered.passes == ({"name": "lower_cached_attention", "fired": 2, "refusals": []},)
    assert lowered.file in Manifest.read(tiny_translator).files
    assert any(node.op_type == "GroupQueryAttention" for node in ir.load(tiny_translator / lowered.file).graph)


def test_graphs_without_a_cache_are_left_alone(tiny_classifier):
    assert Manifest.read(tiny_classifier).lowered == ()


def test_a_pass_that_misses_a_place_is_an_error(tiny_translator, tmp_path):
    model = ir.load(tiny_translator / "decoder.onnx")
    node = next(node for node in model.graph if node.op_type == "Attention" and node.inputs[3].name == "self_mask")
    values = ir.node("Identity", [node.inputs[2]])
    model.graph.insert_before(node, values)
    node.replace_input_with(2, values.outputs[0])
    ir.save(model, tmp_path / "decoder.onnx")
    with pytest.raises(ExportError, match=r"to fire 2 times; found 1: .* its values come out of no TensorScatter"):
        lowered_graphs(tmp_path, [Manifest.read(tiny_translator).graph("decoder")])
