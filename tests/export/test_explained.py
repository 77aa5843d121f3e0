"""The graph ``explained`` goes down the same road as the others, and leaves them as they are."""

import pytest

from attendant.errors import ConfigError
from attendant.manifest import Manifest
from export.artefact.stage import export_onnx
from tests.export.parity.test_check import damage, failed, nudged, trust
from tests.export.test_families import WITH_EXPLAINED, travel

SHOWN = {
    "vit-tiny": ["logits", "attention", "rollout"],
    "swin-tiny": ["logits", *(f"received_{layer}" for layer in range(1, 5))],
    "transformer-tiny": ["logits", "cross_attention"],
    "captioner-cnn-tiny": ["logits", "cross_attention"],
    "mistral-tiny": ["logits", "self_attention"],
}


@pytest.mark.slow
@pytest.mark.planted
@pytest.mark.parametrize("preset", SHOWN)
def test_it_passes_the_parity_check_with_every_output_and_a_changed_weight_fails_in_its_graph_alone(
    preset, exported, tmp_path
):
    graphs = {**WITH_EXPLAINED[preset], "explained": {}}
    folder, measurements = travel(exported(preset, explain=True), tmp_path, graphs)
    signature = Manifest.read(folder).graph("explained")
    assert [spec.name for spec in signature.outputs if spec.name not in signature.aliases] == SHOWN[preset]
    cases = [one.case for one in measurements if (one.graph, one.level[-11:]) == ("explained", "ort float32")]
    assert [name for name in SHOWN[preset][1:] if not any(case.endswith(f", {name}") for case in cases)] == []
    last = list(WITH_EXPLAINED[preset])[-1]
    for damaged in ("explained", last):
        whole = (folder / f"{damaged}.onnx").read_bytes()
        damage(folder, damaged, nudged)
        assert {graph for graph, _ in failed(folder)} == {damaged}
        (folder / f"{damaged}.onnx").write_bytes(whole)
        trust(folder, folder / f"{damaged}.onnx")


def test_the_plain_graph_is_the_same_with_it_and_without(digits_artefact, explained_digits):
    plain, explained = Manifest.read(digits_artefact), Manifest.read(explained_digits)
    assert plain.files.keys() == {"model.onnx", "model.tensorrt.onnx"}
    assert explained.files.keys() - plain.files.keys() == {"explained.onnx"}
    assert {name: explained.files[name] for name in plain.files} == plain.files
    assert plain.fingerprint != explained.fingerprint


def test_a_recurrent_decoder_shows_its_alignment_without_a_graph_more(explained_gru):
    assert [graph.name for graph in Manifest.read(explained_gru).graphs] == ["encoder", "decoder"]


@pytest.mark.parametrize("preset", ["bert-tiny", "timesformer-tiny", "cnn-gru-captioner-tiny"])
def test_a_model_with_nothing_to_show_is_refused_and_nothing_is_written(preset, tmp_path):
    with pytest.raises(ConfigError, match="leave --explain out"):
        export_onnx(preset, tmp_path / "artefact", explain=True)
    assert list(tmp_path.iterdir()) == []
