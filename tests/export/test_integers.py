"""Whole artefacts with fewer bits: the parity check, what they weigh, what the manifest says, and what they answer."""

import numpy as np
import pytest

from attendant.errors import InputError
from attendant.manifest import Manifest
from attendant.sampling_params import SamplingParams
from export.artefact.stage import export_onnx
from export.parity.check import check_parity
from export.parity.parity import levels_of
from export.precision.precisions import PRECISIONS
from serving.engine.text_generation_model import CaptionModel, LanguageModel, TranslationModel
from serving.runtime.cached_decoder import CachedDecoder
from serving.runtime.create_runners import create_runners
from serving.runtime.openvino.runner import OpenVinoRunner, openvino_is_installed
from serving.runtime.ort.runner import OrtRunner
from tests.export.rewritten import rewritten
from tests.text_checkpoints import PROMPT

BYTES = {"int8": 0.40, "int4": 0.30, "int4-hqq": 0.35}  # of the graphs of a quarter of a million parameters


@pytest.mark.parametrize("precision", ["int8", "int4", "int4-hqq"])
def test_a_translator_passes_the_parity_check_on_its_standard_and_its_lowered_graph(
    precision, tiny_translator, tmp_path
):
    folder = rewritten(tiny_translator, precision, tmp_path / "artefact")
    levels = levels_of(check_parity(folder), PRECISIONS[precision])
    assert {f"cached ort {precision}", f"cached ort-cpu {precision}"} <= {level.name for level in levels}
    assert all(level.passed for level in levels)


@pytest.mark.parametrize("precision", ["int8", "int4", "int4-hqq"])
def test_the_dates_are_still_translated_in_a_fraction_of_the_bytes(precision, dates_artefact, tmp_path):
    folder = rewritten(dates_artefact, precision, tmp_path / "artefact")
    manifest = Manifest.read(folder)
    assert answer(TranslationModel(folder, manifest), manifest.example["inputs"]["text"]) == manifest.example["answer"]
    assert size(folder) < BYTES[precision] * size(dates_artefact)


@pytest.mark.parametrize("precision", ["int8", "int4"])
def test_a_captioner_reads_memories_that_were_made_in_the_same_precision(precision, captioner_artefact, tmp_path):
    folder = rewritten(captioner_artefact, precision, tmp_path / "artefact")
    manifest = Manifest.read(folder)
    pixels = np.array(manifest.example["inputs"]["pixels"], np.float32)
    assert answer(CaptionModel(folder, manifest), pixels) == manifest.example["answer"]


@pytest.mark.parametrize("precision", ["int8", "int4", "int4-hqq"])
def test_a_language_model_writes_text(precision, language_model, tmp_path):
    folder = rewritten(language_model, precision, tmp_path / "artefact")
    assert answer(LanguageModel(folder, Manifest.read(folder)), PROMPT, 5)


def test_what_one_row_asks_changes_no_bit_of_what_others_are_answered(language_model, tmp_path):
    folder = rewritten(language_model, "int8", tmp_path / "artefact")
    runner = create_runners(folder, Manifest.read(folder))["decoder"]
    others = np.random.default_rng(0).integers(3, 60, (3, 7))
    answers = [
        np.asarray(CachedDecoder(runner, 4).step(np.vstack([first, others]), np.zeros(4, np.int64))["logits"])
        for first in (np.full(7, 5), np.arange(7) + 20)
    ]
    assert np.array_equal(answers[0][1:], answers[1][1:])  # each row by itself, in the same order of sums
    assert not np.array_equal(answers[0][0], answers[1][0])


def test_the_manifest_tells_where_the_bits_are_and_whose_weights_they_hold(tiny_translator, tmp_path):
    manifest = Manifest.read(rewritten(tiny_translator, "int4", tmp_path / "artefact"))
    types = manifest.types["decoder"]
    assert types["model.embedding.weight.int8"] == "int8"
    assert manifest.types["encoder"]["model.embedding.weight.int8"] == "int8"
    packed = [name for name in types if name.endswith(".int4")]
    assert {types[name] for name in packed} == {"int4"}
    fired = {one["name"]: one["fired"] for one in manifest.passes["decoder"]}
    assert (fired["quantise_dynamic"], fired["quantise_weights"]) == (1, len(packed))


def test_of_a_language_model_in_four_bits_the_canary_asks_without_knowing_the_words(language_model, tmp_path):
    before = Manifest.read(language_model)
    manifest, done = export_onnx(before.source, tmp_path / "artefact", precision="int4", exported=language_model)
    assert done
    assert manifest.example == {"inputs": before.example["inputs"]}
    assert answer(LanguageModel(tmp_path / "artefact", manifest), PROMPT, 5)
    assert export_onnx(before.source, tmp_path / "artefact", precision="int4")[1] is False


def test_of_values_in_eight_bits_the_canary_looks_for_nonsense(text_encoder, tmp_path):
    before = Manifest.read(text_encoder)
    manifest, _ = export_onnx(before.source, tmp_path / "artefact", precision="int8", exported=text_encoder)
    assert before.example["answer"] and manifest.example == {**before.example, "within": 0.5}


def test_four_bits_are_refused_for_models_that_do_not_write(tmp_path):
    with pytest.raises(
        InputError, match="precision int4 is for models that caption, generate, translate; this one can classify"
    ):
        export_onnx("vit-tiny", tmp_path / "artefact", precision="int4")


@pytest.mark.skipif(not openvino_is_installed(), reason="OpenVINO is not installed")
def test_integers_are_left_to_onnx_runtime(text_encoder, tmp_path, monkeypatch):
    monkeypatch.setattr("serving.runtime.create_runners.LARGE", 0)
    folder = rewritten(text_encoder, "int8", tmp_path / "artefact")
    kinds = {
        artefact: type(create_runners(artefact, Manifest.read(artefact))["model"])
        for artefact in (text_encoder, folder)
    }
    assert kinds == {text_encoder: OpenVinoRunner, folder: OrtRunner}


def answer(model, subject, max_tokens=None):
    request = model.request(subject, SamplingParams(max_tokens=max_tokens))
    return "".join(piece.text for piece in model.stream(request))


def size(folder):
    return sum(path.stat().st_size for path in folder.glob("*coder.onnx"))
