import numpy as np
import onnx_ir as ir
import pytest

from attendant.errors import ExportError
from attendant.manifest import Manifest
from export.graph.exported_graph import ExportedGraph
from export.passes import lowering
from export.passes.lowering import LOWERINGS, lower_graph
from serving.runtime.create_runners import create_runners
from serving.runtime.openvino.runner import OpenVinoRunner, openvino_is_installed


def test_an_artefact_holds_the_lowered_decoder_beside_the_standards_and_says_what_was_done(tiny_translator):
    (lowered,) = Manifest.read(tiny_translator).lowered
    assert (lowered.graph, lowered.target, lowered.file) == ("decoder", "ort-cpu", "decoder.ort-cpu.onnx")
    assert lowered.passes == ({"name": "lower_cached_attention", "fired": 2, "refusals": []},)
    assert lowered.file in Manifest.read(tiny_translator).files
    assert any(node.op_type == "GroupQueryAttention" for node in ir.load(tiny_translator / lowered.file).graph)


def test_graphs_without_a_cache_are_left_alone(tiny_classifier):
    assert Manifest.read(tiny_classifier).lowered == ()


@pytest.mark.skipif(not openvino_is_installed(), reason="OpenVINO is not installed")
def test_openvino_is_served_with_its_own_graph_of_windows_and_answers_as_the_standards(explained_swin):
    manifest = Manifest.read(explained_swin)
    (lowered,) = (one for one in manifest.lowered if one.graph == "model")
    assert (lowered.target, lowered.file) == ("openvino-cpu", "model.openvino-cpu.onnx")
    assert [one["name"] for one in lowered.passes] == ["gather_windows", "attend_by_products", "normalise_rows"]
    signature, feeds = manifest.graph("model"), {}
    for spec in signature.inputs:
        feeds[spec.name] = np.random.default_rng(0).random(spec.shape({"batch": 4}), np.float32)
    runners = (
        create_runners(explained_swin, manifest, runtime="openvino")["model"],
        OpenVinoRunner(explained_swin / lowered.file, signature),
        create_runners(explained_swin, manifest, runtime="onnxruntime")["model"],
    )
    served, directly, standard = (runner.run(feeds)["logits"].numpy().copy() for runner in runners)
    np.testing.assert_array_equal(served, directly)  # the same computation twice, in one process
    np.testing.assert_allclose(served, standard, rtol=0, atol=2e-5 * np.abs(standard).max())


def test_the_form_of_one_target_does_not_follow_from_that_of_another(exported, tmp_path, monkeypatch):
    folder = exported("digits-vit", precision="int8-static")
    manifest = Manifest.read(folder)
    (signature,) = manifest.graphs
    assert {one.target for one in manifest.lowered} == LOWERINGS.keys()
    for one in manifest.lowered:
        monkeypatch.setattr(lowering, "LOWERINGS", {one.target: LOWERINGS[one.target]})
        assert lower_graph(ExportedGraph.read(folder, signature), tmp_path) == [one]
        assert (tmp_path / one.file).read_bytes() == (folder / one.file).read_bytes()


def test_a_pass_that_misses_a_place_is_an_error(tiny_translator, tmp_path):
    model = ir.load(tiny_translator / "decoder.onnx")
    node = next(node for node in model.graph if node.op_type == "Attention" and node.inputs[3].name == "self_mask")
    values = ir.node("Identity", [node.inputs[2]])
    model.graph.insert_before(node, values)
    node.replace_input_with(2, values.outputs[0])
    ir.save(model, tmp_path / "decoder.onnx")
    with pytest.raises(ExportError, match=r"to fire 2 times; found 1: .* its values come out of no TensorScatter"):
        lower_graph(ExportedGraph.read(tmp_path, Manifest.read(tiny_translator).graph("decoder")), tmp_path)
