"""Independent proof: onnx's reference evaluator computes what ONNX Runtime and PyTorch compute.

The tolerance is the parity check's: 8 times the largest error that eager float32 makes against float64 in its cases.
"""

import numpy as np
import onnx_ir as ir
import pytest
import torch

from attendant.manifest import Manifest
from attendant.tasks import TASKS, resolve
from export.parity.eager import eager_runners
from export.parity.parity import SAFETY, YARDSTICK, levels_of
from export.parity.task_checks import REFERENCE, RUNTIME
from export.passes.tensorrt.allow_decomposition import without_decomposition
from models.checkpoints.resolve import checkpoint_named
from serving.runtime.cached_decoder import CachedDecoder
from serving.runtime.ort.runner import OrtRunner
from tests.export.reference_runner import ReferenceRunner


def runners_of(folder, place=None):
    """The checkpoint, and its graphs by everybody who can run them; TensorRT's form where a place is given."""
    manifest = Manifest.read(folder)
    checkpoint = checkpoint_named(manifest.source)
    graphs = checkpoint.graphs()
    paths = {one.name: folder / (manifest.file_for(one.name, "tensorrt" if place else "")) for one in manifest.graphs}
    if place is not None:
        paths = {name: of_the_standard(path, place / f"{name}.onnx") for name, path in paths.items()}
    evaluated = {one.name: ReferenceRunner(paths[one.name], one) for one in manifest.graphs}
    return checkpoint, {
        REFERENCE: eager_runners(graphs, torch.float64),
        YARDSTICK: eager_runners(graphs, torch.float32),
        RUNTIME: evaluated,
        "onnxruntime": {one.name: OrtRunner(folder / f"{one.name}.onnx", one) for one in manifest.graphs},
    }


def of_the_standard(path, out):
    """A graph without the attribute that the evaluator refuses, as all of the standard do."""
    ir.save(without_decomposition(ir.load(path)), out)
    return out


def measured(folder, place=None):
    """Every case of the parity check, with the evaluator in the place of ONNX Runtime."""
    checkpoint, runners = runners_of(folder, place)
    del runners["onnxruntime"]
    return list(resolve(TASKS[Manifest.read(folder).task].parity)(checkpoint, runners, {}))


@pytest.mark.parametrize(
    "artefact", [pytest.param("tiny_translator", marks=pytest.mark.slow), "tiny_classifier", "text_encoder"]
)
def test_the_evaluator_agrees_with_pytorch_in_every_case_of_the_ladder(artefact, request):
    levels = levels_of(measured(request.getfixturevalue(artefact)))
    assert len(levels) >= 2
    assert [level.name for level in levels if not level.passed] == []


@pytest.mark.parametrize(
    "artefact", ["tiny_classifier", pytest.param("tiny_translator", marks=pytest.mark.slow), "text_encoder"]
)
def test_the_evaluator_agrees_with_pytorch_on_tensorrts_form(artefact, request, tmp_path):
    levels = levels_of(measured(request.getfixturevalue(artefact), tmp_path))
    assert len(levels) >= 2
    assert [level.name for level in levels if not level.passed] == []


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["swin-tiny", "gru-seq2seq-tiny"])
def test_the_evaluator_agrees_with_pytorch_on_windows_and_on_recurrent_layers_without_padding(preset, exported):
    artefact = exported(preset)
    cases = measured(artefact)
    if preset == "gru-seq2seq-tiny":
        cases = [case for case in cases if case.case.startswith("batch 1,")]  # further rows are padded
    levels = levels_of(cases)
    assert len({level.graph for level in levels}) == len(Manifest.read(artefact).graphs)
    assert [level.name for level in levels if not level.passed] == []


def decoded(runner, tokens, cuts):
    """The logits of a decode in pieces, ``[B, T, V]``, and what the caches hold at its end."""
    decoder = CachedDecoder(runner, len(tokens))
    pieces = np.split(tokens, cuts, axis=1)
    starts = [0, *cuts]
    logits = [
        decoder.step(piece, np.full(len(tokens), start))["logits"] for piece, start in zip(pieces, starts, strict=True)
    ]
    return np.concatenate(logits, axis=1), [buffer.numpy() for buffer in decoder.caches.values()]


@pytest.mark.parametrize("cuts", [[5], [1, 2, 3, 4, 5, 6, 7, 8], []], ids=["prompt and rest", "steps", "whole"])
def test_the_evaluator_onnx_runtime_and_pytorch_agree_on_logits_and_cache_of_a_decode(cuts, language_model):
    checkpoint, runners = runners_of(language_model)
    vocabulary = checkpoint.graphs()[0].below["token_ids"]
    tokens = np.random.default_rng(0).integers(0, vocabulary, (3, 9))
    results = {name: decoded(graphs["decoder"], tokens, cuts) for name, graphs in runners.items()}
    exact, caches = results.pop(REFERENCE)
    scale = np.finfo(np.float32).eps * np.abs(exact).max()
    errors = {name: np.abs(logits - exact).max() for name, (logits, _) in results.items()}
    kept = {name: max(map(furthest, found, caches)) for name, (_, found) in results.items()}
    for measured in (errors, kept):
        assert max(measured.values()) <= SAFETY * max(measured[YARDSTICK], scale), measured
    assert all(np.abs(cache).max() > 0 for cache in caches)


def furthest(found, wanted):
    return np.abs(found - wanted).max()
