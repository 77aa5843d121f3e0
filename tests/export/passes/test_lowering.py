import numpy as np
import onnx_ir as ir
import pytest

from attendant.errors import ExportError
from attendant.manifest import Manifest
from export.graph import exported_graph
from export.graph.exported_graph import ExportedGraph, require_signature
from export.passes.lowering import FORM, LOWERINGS, lower_graph
from export.precision.precisions import PRECISIONS
from export.precision.rewriting import weights_only_for_tensorrt
from export.precision.tensorrt_form import tensorrt_runners
from export.targets.check import validate_for_target
from export.tensorrt.build import sources_of
from serving.runtime.create_runners import create_runners
from serving.runtime.openvino.runner import OpenVinoRunner, openvino_is_installed
from tests.export.rewritten import rewritten


def test_an_artefact_holds_the_lowered_decoder_beside_the_standards_and_says_what_was_done(tiny_translator):
    (lowered,) = (one for one in Manifest.read(tiny_translator).lowered if one.target == "ort-cpu")
    assert (lowered.graph, lowered.file) == ("decoder", "decoder.ort-cpu.onnx")
    assert lowered.passes == ({"name": "lower_cached_attention", "fired": 2, "refusals": []},)
    assert lowered.file in Manifest.read(tiny_translator).files
    assert any(node.op_type == "GroupQueryAttention" for node in ir.load(tiny_translator / lowered.file).graph)


def test_graphs_without_a_cache_are_left_alone_but_for_tensorrt(tiny_classifier):
    (lowered,) = Manifest.read(tiny_classifier).lowered
    assert (lowered.target, lowered.file, lowered.types) == ("tensorrt", "model.tensorrt.onnx", {})
    assert [one["name"] for one in lowered.passes] == ["scale_queries", "allow_decomposition"]


@pytest.mark.skipif(not openvino_is_installed(), reason="OpenVINO is not installed")
def test_openvino_is_served_with_its_own_graph_of_windows_and_answers_as_the_standards(explained_swin):
    manifest = Manifest.read(explained_swin)
    forms = {one.target: one for one in manifest.lowered if one.graph == "model"}
    assert forms.keys() == {"openvino-cpu", "tensorrt"}
    lowered = forms["openvino-cpu"]
    assert (lowered.target, lowered.file) == ("openvino-cpu", "model.openvino-cpu.onnx")
    names = [one["name"] for one in lowered.passes]
    assert names == ["gather_windows", "batch_windows", "attend_by_products", "normalise_rows"]
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


def test_the_form_of_one_target_does_not_follow_from_that_of_another(exported, tmp_path):
    folder = exported("digits-vit", precision="int8-static")
    manifest = Manifest.read(folder)
    (signature,) = manifest.graphs
    assert {one.target for one in manifest.lowered} == LOWERINGS.keys() - {FORM}
    for one in manifest.lowered:
        assert lower_graph(ExportedGraph.read(folder, signature), tmp_path, [one.target]) == [one]
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


@pytest.mark.parametrize("precision", ["int8", "int4", "int4-hqq", "int4-kv8"])
def test_of_integers_tensorrts_form_is_half_precision_with_weights_alone_in_integers(precision, exported, tmp_path):
    folder = exported("dates-transformer", precision=precision)
    manifest = Manifest.read(folder)
    for signature in manifest.graphs:
        form = manifest.signature_for(signature.name, "tensorrt")
        memories = {spec.name for spec in (*form.inputs, *form.outputs) if spec.dtype == "float16"}
        assert memories >= {name for pair in signature.aliases.items() for name in pair}
        model = ir.load(folder / manifest.file_for(signature.name, "tensorrt"))
        require_signature(model, form)
        operators = {node.op_type for node in model.graph}
        assert "DequantizeLinear" in operators and not operators & {"MatMulInteger", "QuantizeLinear"}
        dequantised = [node.inputs[1].const_value.numpy() for node in model.graph if node.op_type == "DequantizeLinear"]
        assert all(scale.dtype == np.float16 and (scale > 0).all() for scale in dequantised)


def test_bfloat16_which_no_cpu_runs_has_tensorrts_form_alone(exported):
    manifest = Manifest.read(exported("digits-vit", precision="bf16"))
    assert [(one.target, one.file) for one in manifest.lowered] == [("tensorrt", "model.tensorrt.onnx")]


def test_making_a_form_changes_nothing_of_the_graph_that_it_is_made_from(tiny_translator, tmp_path):
    graph = ExportedGraph.read(tiny_translator, Manifest.read(tiny_translator).graph("decoder"))
    before = ir.to_proto(graph.model).SerializeToString(deterministic=True)
    weights_only_for_tensorrt(PRECISIONS["int8"], [graph])
    lower_graph(graph, tmp_path)
    assert ir.to_proto(graph.model).SerializeToString(deterministic=True) == before


@pytest.mark.parametrize(("precision", "data"), [("fp16", "decoder.onnx.data"), ("int8", "decoder.tensorrt.onnx.data")])
def test_a_large_form_shares_its_weights_or_has_them_in_a_file_of_its_own(
    precision, data, dates_artefact, tmp_path, monkeypatch
):
    monkeypatch.setattr(exported_graph, "LARGE", 1)
    folder = rewritten(dates_artefact, precision, tmp_path / precision)
    manifest = Manifest.read(folder)
    manifest.verify(folder)
    assert sources_of(manifest, folder, "decoder.tensorrt.onnx").keys() == {"decoder.tensorrt.onnx", data}
    assert [check for check in validate_for_target(folder, "tensorrt")[1] if check.violations] == []
    assert tensorrt_runners(folder, manifest).keys() == {"encoder", "decoder"}
