"""The graph ``explained`` goes down the same road as the others, and leaves them as they are."""

import pytest

from export.ladder import climb
from export.parity import rungs_of
from export.stage import export_onnx
from models.errors import ConfigError
from models.manifest import Manifest
from tests.export.test_families import check_nodes
from tests.export.test_ladder import damage, failed, nudged

SHOWN = {
    "vit-tiny": ["logits", "attention", "rollout"],
    "swin-tiny": ["logits", *(f"received_{layer}" for layer in range(1, 5))],
    "transformer-tiny": ["logits", "cross_attention"],
    "captioner-cnn-tiny": ["logits", "cross_attention"],
}


@pytest.mark.parametrize("preset", SHOWN)
def test_it_passes_the_ladder_with_every_output_and_a_changed_weight_fails_there_alone(preset, tmp_path):
    export_onnx(preset, tmp_path, explain=True)
    check_nodes(tmp_path / "explained.onnx", {})
    signature = Manifest.read(tmp_path).graph("explained")
    assert [spec.name for spec in signature.outputs if spec.name not in signature.aliases] == SHOWN[preset]
    measurements = climb(tmp_path)
    assert all(rung.passed for rung in rungs_of(measurements))
    cases = [one.case for one in measurements if (one.graph, one.rung[-11:]) == ("explained", "ort float32")]
    assert [name for name in SHOWN[preset][1:] if not any(case.endswith(f", {name}") for case in cases)] == []
    damage(tmp_path, "explained", nudged)
    assert {graph for graph, _ in failed(tmp_path)} == {"explained"}


def test_the_plain_graph_is_the_same_with_it_and_without(digits_artefact, explained_digits):
    plain, explained = Manifest.read(digits_artefact), Manifest.read(explained_digits)
    assert plain.files.keys() == {"model.onnx"} and explained.files.keys() == {"model.onnx", "explained.onnx"}
    assert plain.files["model.onnx"] == explained.files["model.onnx"]
    assert plain.fingerprint != explained.fingerprint


def test_a_recurrent_decoder_shows_its_alignment_without_a_graph_more(tmp_path):
    manifest, _ = export_onnx("gru-seq2seq-tiny", tmp_path, explain=True)
    assert [graph.name for graph in manifest.graphs] == ["encoder", "decoder"]


@pytest.mark.parametrize("preset", ["gpt2-tiny", "bert-tiny", "timesformer-tiny", "cnn-gru-captioner-tiny"])
def test_a_model_with_nothing_to_show_is_refused_and_nothing_is_written(preset, tmp_path):
    with pytest.raises(ConfigError, match="leave --explain out"):
        export_onnx(preset, tmp_path / "artefact", explain=True)
    assert list(tmp_path.iterdir()) == []
