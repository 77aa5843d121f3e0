"""Each graph is parsed once on its way from the exporter to the manifest.

Of integers TensorRT's form is half precision: inferring its shapes, by onnx, hands each graph over and back once.
"""

from collections import Counter
from pathlib import Path

import onnx
import onnx_ir as ir
import onnxruntime
import pytest

from attendant.manifest import Manifest
from export.artefact import onnx_artefact, stage
from export.artefact.stage import export_onnx


@pytest.fixture
def parses(monkeypatch):
    """What is parsed: by whom, and which file, counted, with the work of all processes in this one."""
    counted = Counter()

    def count(owner, attribute, word):
        original = getattr(owner, attribute)

        def counting(*arguments, **options):
            path = next((one for one in arguments if isinstance(one, str | Path)), "")
            counted[word, Path(path).name] += 1
            return original(*arguments, **options)

        monkeypatch.setattr(owner, attribute, counting)

    def run_each(function, calls):
        for name, arguments in calls.items():
            function(*arguments)
            yield name

    count(onnx, "load", "load")
    count(ir.serde, "deserialize_model", "deserialize")
    count(onnxruntime.InferenceSession, "__init__", "session")
    monkeypatch.setattr(onnx_artefact, "run_each", run_each)
    monkeypatch.setattr(stage, "start_importing", lambda: None)
    return counted


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_an_export_parses_each_graph_once(precision, parses, tmp_path):
    manifest, _ = export_onnx("llama-tiny", tmp_path / "artefact", precision=precision)
    assert manifest.weights and manifest.types and manifest.lowered
    assert parses == {("load", "decoder.onnx"): 1, ("deserialize", ""): 1 + (precision == "int8")}


def test_another_precision_of_an_artefact_parses_its_graphs_once(tiny_translator, parses, tmp_path):
    source = Manifest.read(tiny_translator).source
    export_onnx(source, tmp_path / "artefact", precision="int8", exported=tiny_translator)
    assert parses == {("load", "encoder.onnx"): 1, ("load", "decoder.onnx"): 1, ("deserialize", ""): 2 + 2}
