"""One representative of every kind of graph goes down the road: opset 24, TensorRT, parity, and damage that is seen."""

import re
import shutil
from collections import Counter

import onnx
import pytest

from attendant.manifest import Manifest
from export.graph.exported_graph import STANDARD_DOMAINS
from export.graph.translations import OPSET
from export.parity.check import check_parity
from export.parity.parity import levels_of
from export.targets.check import validate_for_target
from tests.export.in_precision import hold_in_narrow_types
from tests.export.parity.test_check import damage, failed, nudged

# What each must contain for its memory to be updated in place, or for its layers to be the runtime's own.
NODES = {
    "rnn-seq2seq-tiny": {"encoder": {"RNN": 1}, "decoder": {"RNN": 1}},
    "lstm-seq2seq-tiny": {"encoder": {"LSTM": 1}, "decoder": {"LSTM": 1}},
    "gru-seq2seq-tiny": {"encoder": {"GRU": 1}, "decoder": {"GRU": 1}},
    "bart-tiny": {"encoder": {"Attention": 2}, "decoder": {"Attention": 2, "TensorScatter": 2}},
    "t5-v1.1-tiny": {"encoder": {"Attention": 2}, "decoder": {"Attention": 2, "TensorScatter": 2}},
    "gpt2-tiny": {"decoder": {"Attention": 2, "TensorScatter": 4, "LayerNormalization": 5}},
    "qwen3-tiny": {"decoder": {"Attention": 2, "TensorScatter": 4, "RMSNormalization": 9}},
    "bert-tiny": {"model": {"Attention": 2}},
    "show-attend-tell-tiny": {"encoder": {"Conv": 3, "MaxPool": 1}, "decoder": {"LSTM": 1}},
    "cnn-gru-captioner-tiny": {"encoder": {"Conv": 3, "MaxPool": 1}, "decoder": {"GRU": 1}},
    "trocr-tiny": {"encoder": {"Attention": 2}, "decoder": {"Attention": 4, "TensorScatter": 4}},
    "deit-distilled-tiny": {"model": {"Conv": 1, "Attention": 2, "Gemm": 2}},
    "hybrid-vit-tiny": {"model": {"Attention": 2, "Conv": 13, "GroupNormalization": 12}},
    "swin-v2-tiny": {"model": {"Attention": 4, "ReduceL2": 8}},
    "tnt-tiny": {"model": {"Attention": 4, "LayerNormalization": 15}},
    "timesformer-tiny": {"model": {"Attention": 4, "LayerNormalization": 7}},
}

# Of these the graph that explains goes the same road: tests/export/test_explained.py.
WITH_EXPLAINED = {
    "vit-tiny": {"model": {"Conv": 1, "Attention": 2, "LayerNormalization": 5}},
    "swin-tiny": {"model": {"Attention": 4, "LayerNormalization": 11}},
    "transformer-tiny": {
        "encoder": {"Attention": 2},
        "decoder": {"Attention": 4, "TensorScatter": 4},
    },
    "captioner-cnn-tiny": {
        "encoder": {"Conv": 3, "MaxPool": 1, "Attention": 2},
        "decoder": {"Attention": 4, "TensorScatter": 4},
    },
    "mistral-tiny": {"decoder": {"Attention": 2, "TensorScatter": 4, "RMSNormalization": 5}},
}

# Elsewhere it is the largest weight; here that belongs to the network of the position bias, and moves next to nothing.
DAMAGED = {"swin-v2-tiny": "head.weight"}


# Of those that other tests export too.
ORDINARY = {"gru-seq2seq-tiny", "gpt2-tiny"}


@pytest.mark.planted
@pytest.mark.parametrize(
    "preset", [pytest.param(name, marks=() if name in ORDINARY else pytest.mark.slow) for name in NODES]
)
def test_it_exports_in_standard_operators_passes_the_parity_check_and_a_changed_weight_fails(
    preset, exported, tmp_path
):
    folder = travel(exported(preset), tmp_path, NODES[preset])[0]
    last = list(NODES[preset])[-1]
    damage(folder, last, nudged, name=DAMAGED.get(preset))
    assert {graph for graph, _ in failed(folder)} == {last}


def travel(artefact, place, graphs):
    """A copy of an artefact down the road without damage; the copy and the measurements."""
    folder = shutil.copytree(artefact, place / "artefact")
    for graph, nodes in graphs.items():
        check_nodes(folder / f"{graph}.onnx", nodes)
    _, checks = validate_for_target(folder, "tensorrt")
    assert [check for check in checks if check.violations] == []
    measurements = check_parity(folder)
    assert all(level.passed for level in levels_of(measurements))
    hold_in_narrow_types(folder, place)
    cases = [measurement.case for measurement in measurements]
    assert len({re.match(r"batch (\d+)", case).group(1) for case in cases}) >= 2
    if varying_lengths(folder):
        assert len({size for case in cases for size in re.findall(r"(?:source|target) (\d+)", case)}) >= 2
    return folder, measurements


def varying_lengths(folder):
    """Whether any axis but the batch varies."""
    specs = [spec for graph in Manifest.read(folder).graphs for spec in graph.inputs]
    return {axis for spec in specs for axis in spec.axes if isinstance(axis, str)} != {"batch"}


def check_nodes(path, nodes):
    model = onnx.load(path)
    assert [(entry.domain, entry.version) for entry in model.opset_import] == [("", OPSET)]
    assert {node.domain for node in model.graph.node} <= STANDARD_DOMAINS
    counts = Counter(node.op_type for node in model.graph.node)
    assert {name: counts[name] for name in nodes} == nodes
