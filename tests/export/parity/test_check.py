import dataclasses
import json
import shutil

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from attendant.errors import ArtefactError, ParityError
from attendant.manifest import Manifest, sha256_of
from export.parity.check import check_parity
from export.parity.parity import YARDSTICK, levels_of, require_parity
from export.parity.task_checks import LOWERED, OPENVINO, RUNTIME, TENSORRT_FORM
from export.verbs import check
from serving.runtime.openvino.runner import openvino_is_installed

RUNTIMES = {RUNTIME, OPENVINO} if openvino_is_installed() else {RUNTIME}  # of graphs without a cache


@pytest.fixture
def copied(tiny_translator, tmp_path):
    return shutil.copytree(tiny_translator, tmp_path / "artefact")


def damage(folder, graph, change, *, name=None):
    """Change one weight of a graph, and let the manifest know the new file."""
    path = folder / f"{graph}.onnx"
    model = onnx.load(path)
    floats = [
        tensor for tensor in model.graph.initializer if tensor.data_type == onnx.TensorProto.FLOAT and tensor.dims
    ]
    tensor = max(floats, key=lambda t: np.prod(t.dims)) if name is None else next(t for t in floats if name in t.name)
    tensor.CopyFrom(numpy_helper.from_array(change(numpy_helper.to_array(tensor).copy()), tensor.name))
    onnx.save(model, path)
    trust(folder, path)


def trust(folder, path):
    manifest = Manifest.read(folder)
    files = {**manifest.files, path.name: sha256_of(path)}
    dataclasses.replace(manifest, files=files).write(folder)


def nudged(array):
    array.reshape(-1)[0] += 1e-3
    return array


def failed(folder):
    return {(level.graph, level.name) for level in levels_of(check_parity(folder)) if not level.passed}


def test_a_translator_agrees_with_float64_on_every_level(tiny_translator):
    levels = levels_of(check_parity(tiny_translator))
    assert {(level.graph, level.name) for level in levels} == {
        ("encoder", YARDSTICK),
        *(("encoder", runtime) for runtime in {*RUNTIMES, TENSORRT_FORM}),
        ("decoder", YARDSTICK),
        ("decoder", "cached eager float64"),
        ("decoder", f"cached {RUNTIME}"),
        ("decoder", f"cached {LOWERED}"),
        ("decoder", f"cached {TENSORRT_FORM}"),
    }
    assert all(level.passed for level in levels)
    assert all(level.worst.error < 1e-5 for level in levels), (
        "tolerances come from rounding, not from a broken yardstick"
    )


def test_a_classifier_agrees_with_float64_on_every_level(tiny_classifier):
    levels = levels_of(check_parity(tiny_classifier))
    assert {level.name: level.passed for level in levels} == dict.fromkeys({YARDSTICK, *RUNTIMES, TENSORRT_FORM}, True)


@pytest.mark.planted
def test_one_weight_off_by_a_thousandth_in_the_decoder_fails(copied):
    damage(copied, "decoder", nudged)
    assert failed(copied) == {("decoder", f"cached {RUNTIME}")}


@pytest.mark.planted
def test_one_weight_off_by_a_thousandth_in_the_lowered_decoder_fails_there_alone(copied):
    damage(copied, "decoder.ort-cpu", nudged)
    assert failed(copied) == {("decoder", f"cached {LOWERED}")}


@pytest.mark.planted
def test_one_weight_off_by_a_thousandth_in_the_decoder_for_tensorrt_fails_there_alone(copied):
    damage(copied, "decoder.tensorrt", nudged)
    assert failed(copied) == {("decoder", f"cached {TENSORRT_FORM}")}


@pytest.mark.planted
def test_queries_for_tensorrt_that_are_not_scaled_fail(copied):
    path = copied / "decoder.tensorrt.onnx"
    model = onnx.load(path)
    for tensor in (tensor for tensor in model.graph.initializer if "queries.scale" in tensor.name):
        tensor.CopyFrom(numpy_helper.from_array(np.array(1, np.float32), tensor.name))
    onnx.save(model, path)
    trust(copied, path)
    assert failed(copied) == {("decoder", f"cached {TENSORRT_FORM}")}


def test_a_pass_that_forgets_the_scale_fails(copied):
    path = copied / "decoder.ort-cpu.onnx"
    model = onnx.load(path)
    for node in (node for node in model.graph.node if node.op_type == "GroupQueryAttention"):
        node.attribute.append(onnx.helper.make_attribute("scale", 1.0))
    onnx.save(model, path)
    trust(copied, path)
    assert failed(copied) == {("decoder", f"cached {LOWERED}")}


@pytest.mark.planted
def test_one_weight_off_by_a_thousandth_in_the_encoder_fails_there_and_downstream(copied):
    damage(copied, "encoder", nudged)
    downstream = {("decoder", f"cached {one}") for one in (RUNTIME, LOWERED)}
    assert failed(copied) == {("encoder", RUNTIME), *downstream}


@pytest.mark.planted
@pytest.mark.skipif(not openvino_is_installed(), reason="OpenVINO is not installed")
def test_one_weight_off_by_a_thousandth_in_the_encoder_for_openvino_fails_there_alone(copied):
    damage(copied, "encoder.openvino-cpu", nudged)
    assert failed(copied) == {("encoder", runtime) for runtime in RUNTIMES if runtime != RUNTIME}


def test_a_mask_that_shows_the_future_fails(copied):
    path = copied / "decoder.onnx"
    model = onnx.load(path)
    model.graph.node.insert(0, onnx.helper.make_node("Or", ["self_mask", "self_mask"], ["seen"]))
    model.graph.node.insert(0, onnx.helper.make_node("Not", ["self_mask"], ["unseen"]))
    model.graph.node[1].input[1] = "unseen"
    for node in (node for node in model.graph.node if node.op_type == "Attention"):
        node.input[3] = "seen" if node.input[3] == "self_mask" else node.input[3]
    onnx.save(model, path)
    trust(copied, path)
    assert failed(copied) == {("decoder", f"cached {RUNTIME}")}


def exchange(folder, first, second):
    """Give two tensors of the decoder each other's names, and the nodes that read them what they read before."""
    path = folder / "decoder.onnx"
    model = onnx.load(path)
    other = {first: second, second: first}
    for node in model.graph.node:
        node.input[:] = [other.get(name, name) for name in node.input]
        node.output[:] = [other.get(name, name) for name in node.output]
    onnx.save(model, path)
    trust(folder, path)


@pytest.mark.planted
@pytest.mark.parametrize(
    ("first", "second"),
    [("self_00_key_out", "self_00_value_out"), ("self_00_key_out", "self_01_key_out")],
    ids=["key and value", "two layers"],
)
def test_an_exchanged_pair_of_caches_fails_in_cached_decoding_and_is_told(first, second, copied):
    exchange(copied, first, second)
    levels = levels_of(check_parity(copied))
    assert {(level.graph, level.name) for level in levels if not level.passed} == {("decoder", f"cached {RUNTIME}")}
    with pytest.raises(ParityError, match=r"decoder on cached ort float32 within .*; found .* in case 'batch 5"):
        require_parity(levels, copied / "parity.json")


@pytest.mark.planted
def test_a_flipped_bit_of_a_weight_is_found_before_anything_runs(copied):
    path = copied / "decoder.onnx"
    content = path.read_bytes()
    weight = max(onnx.load(path).graph.initializer, key=lambda tensor: len(tensor.raw_data)).raw_data
    place = content.index(weight) + len(weight) // 2
    path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
    onnx.checker.check_model(onnx.load(path))
    with pytest.raises(
        ArtefactError, match=r"decoder\.onnx with SHA-256 .* as its manifest says; found .*; export again"
    ):
        check_parity(copied)


@pytest.mark.planted
def test_a_file_that_is_not_the_manifests_is_refused_before_anything_runs(copied):
    (copied / "decoder.onnx").write_bytes((copied / "encoder.onnx").read_bytes())
    with pytest.raises(ArtefactError, match=r"decoder\.onnx with SHA-256"):
        check_parity(copied)


def test_a_manifest_of_another_graph_is_refused(copied):
    (copied / "decoder.onnx").write_bytes((copied / "encoder.onnx").read_bytes())
    trust(copied, copied / "decoder.onnx")
    with pytest.raises(ArtefactError, match="as its manifest says"):
        check_parity(copied)


def test_another_models_checkpoint_is_refused(copied):
    with pytest.raises(ArtefactError, match="--source"):
        check_parity(copied, "vit-tiny")


def test_a_checkpoint_of_another_size_is_refused(copied):
    manifest = Manifest.read(copied)
    dataclasses.replace(manifest, config={**manifest.config, "layers": 3}).write(copied)
    with pytest.raises(ArtefactError, match="'layers': 3"):
        check_parity(copied)


@pytest.mark.planted
def test_the_command_prints_a_table_writes_the_report_and_fails_on_damage(copied, capsys):
    assert check(copied) == 0
    assert "cached ort float32" in capsys.readouterr().out
    assert json.loads((copied / "parity.json").read_text())["passed"] is True
    damage(copied, "decoder", nudged)
    with pytest.raises(ParityError, match="of the float64 reference") as broken:
        check(copied)
    assert broken.value.exit_status == 1
    assert json.loads((copied / "parity.json").read_text())["passed"] is False
