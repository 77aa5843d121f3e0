"""Which exports may lend each other their engines. Refitting itself is TensorRT's."""

import dataclasses
from types import SimpleNamespace

import pytest

from attendant.engine_manifest import EngineManifest
from attendant.errors import ArtefactError, MachineError
from attendant.manifest import Manifest
from export.tensorrt import refit as stage
from export.tensorrt.refit import refit_engines
from tests.conftest import DATES
from tests.nvidia.engines import H100, with_engines


@pytest.fixture
def refitted(monkeypatch):
    asked = []

    def open_plan(plan, version_compatible, weights=None):
        asked.append((plan, weights))
        return SimpleNamespace(serialize=lambda: plan + b" refitted")

    monkeypatch.setattr(stage, "open_plan", open_plan)
    monkeypatch.setattr(stage, "tensorrt_module", lambda: None)
    monkeypatch.setattr(stage, "this_platform", lambda: H100)
    return asked


def copied(folder, out, **said):
    with_engines(folder, out)
    (out / "engine.json").unlink()
    manifest = dataclasses.replace(Manifest.read(out), **said)
    manifest.write(out)
    return manifest


def test_another_exports_engines_come_with_this_ones_weights_and_hashes(dates_artefact, tmp_path, refitted):
    with_engines(dates_artefact, tmp_path / "old", weights="refittable")
    copied(dates_artefact, tmp_path / DATES, name="dates-again")
    made = refit_engines(tmp_path / DATES, tmp_path / "old")
    assert [plan for plan, _ in refitted] == [b"the engine of encoder", b"the engine of decoder"]
    assert [graph.name for _, graph in refitted] == ["encoder.tensorrt.onnx", "decoder.tensorrt.onnx"]
    assert (tmp_path / DATES / "decoder.plan").read_bytes() == b"the engine of decoder refitted"
    assert made == EngineManifest.read(tmp_path / DATES) and made.name == "dates-again"
    made.verify(tmp_path / DATES, Manifest.read(tmp_path / DATES))


def test_an_engine_without_weights_is_taken_as_it_is(dates_artefact, tmp_path, refitted):
    old = with_engines(dates_artefact, tmp_path / "old", weights="stripped")
    copied(dates_artefact, tmp_path / DATES)
    made = refit_engines(tmp_path / DATES, tmp_path / "old")
    assert refitted == []
    assert [one.sha256 for one in made.engines] == [one.sha256 for one in old.engines]


def test_fixed_weights_are_refused(dates_artefact, tmp_path, refitted):
    with_engines(dates_artefact, tmp_path / "old")
    copied(dates_artefact, tmp_path / DATES)
    with pytest.raises(ArtefactError, match="--weights refittable"):
        refit_engines(tmp_path / DATES, tmp_path / "old")


def test_an_artefact_without_engines_is_refused(dates_artefact, tmp_path, refitted):
    copied(dates_artefact, tmp_path / DATES)
    with pytest.raises(ArtefactError, match="engines in"):
        refit_engines(tmp_path / DATES, dates_artefact)


@pytest.mark.parametrize("part", ["weights", "graphs", "precision"])
def test_another_architecture_or_precision_is_refused(dates_artefact, tmp_path, refitted, part):
    with_engines(dates_artefact, tmp_path / "old", weights="refittable")
    manifest = Manifest.read(dates_artefact)
    weights = {graph: dict(names) for graph, names in manifest.weights.items()}
    weights["decoder"].popitem()
    graphs = tuple(dataclasses.replace(graph, axes={}) for graph in manifest.graphs)
    copied(
        dates_artefact, tmp_path / DATES, **{part: {"weights": weights, "graphs": graphs, "precision": "fp16"}[part]}
    )
    with pytest.raises(ArtefactError, match="two exports of one architecture in one precision"):
        refit_engines(tmp_path / DATES, tmp_path / "old")


def test_two_exports_of_one_architecture_name_their_weights_alike_and_hold_all_of_them(dates_artefact):
    """What a refit rests on: every initializer of the graph with more than one element is in the manifest's map."""
    import onnx

    manifest = Manifest.read(dates_artefact)
    for graph in manifest.graphs:
        model = onnx.load(dates_artefact / f"{graph.name}.onnx", load_external_data=False)
        large = {tensor.name for tensor in model.graph.initializer if len(tensor.dims) > 1 and min(tensor.dims) > 1}
        assert large and large <= manifest.weights[graph.name].keys()


def test_a_machine_without_tensorrt_is_told_so(dates_artefact, tmp_path):
    with pytest.raises(MachineError, match="TensorRT"):
        refit_engines(tmp_path, dates_artefact)
