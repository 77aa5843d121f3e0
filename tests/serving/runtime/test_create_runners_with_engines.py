"""An artefact with engines runs on TensorRT's runner, and the engine that generates does not know."""

from dataclasses import replace

import onnx_ir as ir
import pytest

from attendant.errors import MachineError
from attendant.manifest import Manifest
from attendant.sampling_params import SamplingParams
from export.passes.tensorrt.allow_decomposition import without_decomposition
from serving.engine.text_generation_model import LanguageModel, TranslationModel
from serving.runtime.create_runners import create_runners
from serving.runtime.executable import require_executable
from serving.runtime.ort.runner import OrtRunner
from serving.runtime.tensorrt import engines
from serving.runtime.tensorrt.runner import TrtRunner
from tests.nvidia.engines import H100, with_engines
from tests.serving.runtime.tensorrt.fake_driver import FakeDriver
from tests.serving.runtime.tensorrt.fake_engine import FakeEngine


@pytest.fixture
def gpu(monkeypatch):
    """The fakes in the places of TensorRT and of the driver, behind everything that is ours."""
    drivers = []

    def driver():
        drivers.append(FakeDriver())
        return drivers[-1]

    def load(folder, described, signature, device):
        graph = folder / f"run.{described[0].source}"
        ir.save(without_decomposition(ir.load(folder / described[0].source)), graph)
        engines = [(FakeEngine(device.driver, graph, signature, one), one) for one in described]
        return TrtRunner(engines, signature, device, "USER_MANAGED")

    monkeypatch.setattr(engines, "this_platform", lambda: H100)
    monkeypatch.setattr(engines, "CudaDriver", driver)
    monkeypatch.setattr(engines.TrtRunner, "load", load)
    return drivers


@pytest.mark.parametrize("apart", [False, True], ids=["one engine", "an engine for each phase"])
def test_translations_are_the_same_with_engines_beams_and_batches_included(dates_artefact, tmp_path, gpu, apart):
    with_engines(dates_artefact, tmp_path / "a", apart=apart)
    manifest = Manifest.read(tmp_path / "a")
    asked = [
        (text, options) for text in ("3 May 1999", "12 June 2024") for options in (None, SamplingParams(beam_width=3))
    ]
    answers = []
    for folder, runtime in ((tmp_path / "a", "auto"), (dates_artefact, "onnxruntime")):
        model = TranslationModel(folder, manifest, runtime=runtime)
        answers.append([[piece.token_ids for piece in model.stream(model.request(*one))] for one in asked])
    assert answers[0] == answers[1]
    assert len(gpu) == 1 and gpu[0].replays > 10


def test_a_prompt_is_continued_the_same_with_an_engine(language_model, tmp_path, gpu):
    with_engines(language_model, tmp_path / "a")
    manifest = Manifest.read(tmp_path / "a")
    answers = []
    for folder, runtime in ((tmp_path / "a", "auto"), (language_model, "onnxruntime")):
        model = LanguageModel(folder, manifest, runtime=runtime)
        answers.append([piece.token_ids for piece in model.stream(model.request("the quick brown fox"))])
    assert answers[0] == answers[1]
    assert gpu[0].replays > 5


@pytest.mark.parametrize("precision", ["int8", "int4"])
def test_of_integers_engines_hand_each_other_half_precision(exported, tmp_path, gpu, precision):
    artefact = exported("dates-transformer", precision=precision)
    with_engines(artefact, tmp_path / "a")
    manifest = Manifest.read(tmp_path / "a")
    runners = create_runners(tmp_path / "a", manifest)
    decoder = runners["decoder"].signature
    assert {decoder.input(name).dtype for name in decoder.aliases.values()} == {"float16"}
    model = TranslationModel(tmp_path / "a", manifest)
    pieces = [list(model.stream(model.request(text))) for text in ("3 May 1999", "12 June 2024")]
    assert ["".join(piece.text for piece in answer) for answer in pieces] == ["1999-05-03", "2024-06-12"]


def test_graphs_without_an_engine_run_where_they_did(dates_artefact, tmp_path, gpu):
    with_engines(dates_artefact, tmp_path / "a", graphs=["encoder"])
    runners = create_runners(tmp_path / "a", Manifest.read(tmp_path / "a"))
    assert isinstance(runners["encoder"], TrtRunner)
    assert not isinstance(runners["decoder"], TrtRunner)


def test_engines_are_not_looked_at_where_another_runtime_is_asked_for(digits_artefact, tmp_path):
    with_engines(digits_artefact, tmp_path / "a")
    runners = create_runners(tmp_path / "a", Manifest.read(tmp_path / "a"), runtime="onnxruntime")
    assert isinstance(runners["model"], OrtRunner)


def test_an_artefact_with_engines_is_refused_where_there_is_no_gpu(digits_artefact, tmp_path):
    with_engines(digits_artefact, tmp_path / "a")
    with pytest.raises(MachineError, match=r"libcuda|libnvinfer"):
        create_runners(tmp_path / "a", Manifest.read(tmp_path / "a"))


def test_bfloat16_is_executable_where_every_graph_has_an_engine(digits_artefact, tmp_path, gpu):
    described = with_engines(digits_artefact, tmp_path / "a")
    manifest = replace(Manifest.read(tmp_path / "a"), precision="bf16", runtimes=("openvino",))
    require_executable(manifest, "auto", engines=described)
    with pytest.raises(MachineError, match="attendant export tensorrt"):
        require_executable(manifest, "onnxruntime")
