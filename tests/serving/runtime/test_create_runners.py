import os
import sys
from pathlib import Path

import onnx
import pytest
import torch

from attendant.errors import ArtefactError, ConfigError, MachineError
from attendant.manifest import Manifest
from attendant.tensor_names import EXPLAINED
from export.artefact.stage import export_onnx, export_torch
from serving.runtime import create_runners as module
from serving.runtime.create_runners import create_runners
from serving.runtime.openvino.runner import OpenVinoRunner, openvino_is_installed
from serving.runtime.ort.runner import OrtRunner, RowByRow
from tests.conftest import DIGITS

needs_openvino = pytest.mark.skipif(not openvino_is_installed(), reason="OpenVINO is not installed")


def kinds(folder, **options):
    return {name: type(one) for name, one in create_runners(folder, Manifest.read(folder), **options).items()}


def test_a_small_graph_runs_on_onnx_runtime(digits_artefact):
    assert kinds(digits_artefact) == {"model": OrtRunner}


@needs_openvino
def test_a_large_graph_runs_on_openvino(digits_artefact, monkeypatch):
    monkeypatch.setattr(module, "LARGE", 100_000)
    assert kinds(digits_artefact) == {"model": OpenVinoRunner}
    assert kinds(digits_artefact, runtime="onnxruntime") == {"model": OrtRunner}


@needs_openvino
def test_a_large_graph_that_openvino_refuses_runs_on_onnx_runtime(gru_artefact, monkeypatch):
    monkeypatch.setattr(module, "LARGE", 0)
    assert kinds(gru_artefact) == {"encoder": OrtRunner, "decoder": OrtRunner}


def test_a_large_graph_runs_on_onnx_runtime_where_openvino_is_not_installed(digits_artefact, monkeypatch):
    monkeypatch.setattr(module, "LARGE", 0)
    monkeypatch.setitem(sys.modules, "openvino", None)
    assert kinds(digits_artefact) == {"model": OrtRunner}


def test_openvino_that_is_asked_for_and_missing_is_named(digits_artefact, monkeypatch):
    monkeypatch.setitem(sys.modules, "openvino", None)
    with pytest.raises(MachineError, match="pip install openvino"):
        create_runners(digits_artefact, Manifest.read(digits_artefact), runtime="openvino")


@needs_openvino
@pytest.mark.parametrize("runtime", ["openvino", "openvino-bf16"])
def test_a_decoder_runs_on_onnx_runtime_and_takes_what_openvino_encoded(dates_artefact, runtime):
    assert kinds(dates_artefact, runtime=runtime) == {"encoder": OpenVinoRunner, "decoder": RowByRow}


@needs_openvino
def test_a_translation_is_the_same_whichever_runtime_encodes(dates_artefact):
    from serving.engine.text_generation_model import TranslationModel

    manifest = Manifest.read(dates_artefact)
    answers = [
        "".join(piece.text for piece in model.stream(model.request("the 4th of july 1776")))
        for model in (TranslationModel(dates_artefact, manifest, 1, one) for one in ("onnxruntime", "openvino"))
    ]
    assert answers[0] == answers[1] != ""


def test_an_unknown_runtime_is_refused(digits_artefact):
    with pytest.raises(ConfigError, match="abacus"):
        create_runners(digits_artefact, Manifest.read(digits_artefact), runtime="abacus")


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_every_graph_gets_the_threads_that_were_asked_for(dates_artefact, threads):
    before = threads_of_this_process()
    runners = create_runners(dates_artefact, Manifest.read(dates_artefact), threads, "onnxruntime")
    # Each graph has a pool of its own, and whoever runs it works beside those of the pool.
    assert len(threads_of_this_process() - before) == len(runners) * (threads - 1)


def threads_of_this_process():
    return {path.name for path in Path("/proc/self/task").iterdir()}


@needs_openvino
@pytest.mark.parametrize("threads", [1, 2])
def test_openvino_gets_the_threads_that_were_asked_for_or_as_many_as_there_are_processors(dates_artefact, threads):
    encoder = create_runners(dates_artefact, Manifest.read(dates_artefact), threads, "openvino")["encoder"]
    found = encoder._compiled.get_property("INFERENCE_NUM_THREADS")  # it starts them when it first needs them
    assert found == min(threads, len(os.sched_getaffinity(0)))


@pytest.mark.parametrize("threads", [1, 2])
def test_torch_gets_the_threads_that_were_asked_for(tmp_path, threads):
    before = torch.get_num_threads()
    manifest, _ = export_torch("transformer-tiny", tmp_path / "artefact")
    try:
        torch.set_num_threads(3)
        create_runners(tmp_path / "artefact", manifest, threads)
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)


@pytest.mark.planted
def test_a_graph_that_is_loaded_later_is_verified_then(tmp_path):
    folder = tmp_path / DIGITS
    export_onnx(DIGITS, folder, explain=True)
    runners, others = (create_runners(folder, Manifest.read(folder)) for _ in range(2))
    assert isinstance(others[EXPLAINED], OrtRunner)
    for path in folder.glob(f"{EXPLAINED}*.onnx"):
        model = onnx.load(path)
        model.producer_name = "somebody else"
        onnx.save(model, path)
    with pytest.raises(ArtefactError, match=EXPLAINED):
        runners[EXPLAINED]
