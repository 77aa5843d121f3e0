import numpy as np
import pytest

from attendant.errors import ArtefactError, InputError
from attendant.manifest import Manifest
from serving.runtime.ort.node_times import profile
from serving.runtime.ort.runner import OrtRunner


def decode(artefact, **changes):
    signature = Manifest.read(artefact).graph("decoder")
    sizes = {"batch": 1, "steps": 2, "attended": 2, "scored": 1, "source": 3}
    kinds = {"bool": np.ones, "int64": np.zeros, "float32": np.zeros}
    feeds = {spec.name: kinds[spec.dtype](spec.shape(sizes), spec.dtype) for spec in signature.inputs}
    return profile(artefact / "decoder.onnx", signature, {**feeds, **changes}, sizes)


def test_every_node_that_runs_is_timed_and_operators_are_their_sums(tiny_translator):
    found = decode(tiny_translator)
    counts = [sum(node.operator == operator for node in found.nodes) for operator in ("Attention", "TensorScatter")]
    assert counts == [4, 4]
    assert found.seconds > 0
    assert sum(found.by_operator.values()) == pytest.approx(sum(node.seconds for node in found.nodes))


def test_nodes_stand_in_the_order_in_which_they_run(tiny_translator):
    names = [node.operator for node in decode(tiny_translator).nodes]
    assert names.index("TensorScatter") < names.index("Attention")
    slowest = decode(tiny_translator).slowest
    assert [node.seconds for node in slowest] == sorted((node.seconds for node in slowest), reverse=True)


def test_a_feed_that_does_not_fit_is_refused(tiny_translator):
    with pytest.raises(InputError, match="token_ids"):
        decode(tiny_translator, token_ids=np.zeros((1, 2), np.float32))


def test_a_file_that_is_no_graph_is_refused(tiny_translator, tmp_path):
    (tmp_path / "decoder.onnx").write_bytes(b"no graph")
    signature = Manifest.read(tiny_translator).graph("decoder")
    with pytest.raises(ArtefactError, match="ONNX graph"):
        profile(tmp_path / "decoder.onnx", signature, {}, {"batch": 1})


def test_a_runner_records_only_when_asked(tiny_classifier, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    signature = Manifest.read(tiny_classifier).graph("model")
    OrtRunner(tiny_classifier / "model.onnx", signature)
    assert list(tmp_path.iterdir()) == []
    record = OrtRunner(tiny_classifier / "model.onnx", signature, record=tmp_path / "nodes").end_record()
    assert record.is_file()
    assert record.parent == tmp_path
