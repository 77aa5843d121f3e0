"""int4-kv8 from end to end: caches in bytes that are answered from, shared, moved, and explained from."""

import os
from dataclasses import replace

import numpy as np
import pytest

from attendant.errors import InputError
from attendant.manifest import Manifest
from attendant.sampling_params import SamplingParams
from export.artefact.stage import export_onnx
from export.parity.check import check_parity
from export.parity.parity import levels_of
from export.precision.precisions import PRECISIONS
from export.targets.check import validate_for_target
from serving.engine.cache_plan import CachePlan
from serving.engine.kv_cache import KVCache
from serving.engine.text_generation_model import LanguageModel, TranslationModel
from serving.runtime.cached_decoder import CachedDecoder
from serving.runtime.create_runners import create_runners
from serving.runtime.ort.runner import OrtBuffer, OrtRunner
from tests.conftest import LANGUAGE_MODEL
from tests.export.rewritten import rewritten
from tests.text_checkpoints import write_language_model

PRECISION, QUERIES = "int4-kv8", "ORT_MLAS_QKGEMM_S8_APPROX_VNNI"
IDS = np.array([[5, 9, 12, 7, 30, 8], [6, 31, 22, 8, 7, 10]])


@pytest.fixture(scope="module")
def prompts(tmp_path_factory):
    """Samples for models that were trained on nothing."""
    path = tmp_path_factory.mktemp("samples") / "prompts.npz"
    np.savez(path, token_ids=np.random.default_rng(0).integers(3, 60, (16, 12)))
    return path


@pytest.fixture(scope="module")
def dates(dates_artefact, tmp_path_factory):
    """The shipped translator."""
    return rewritten(dates_artefact, PRECISION, tmp_path_factory.mktemp("bytes") / "dates-transformer")


@pytest.fixture(scope="module")
def writer(language_model, prompts, tmp_path_factory):
    """A tiny Llama."""
    return rewritten(language_model, PRECISION, tmp_path_factory.mktemp("bytes") / "writer", prompts)


def decoder(folder):
    return create_runners(folder, Manifest.read(folder))["decoder"]


def nbytes(caches):
    return sum(buffer.nbytes for buffer in caches.values())


def tokens(folder, prompt, **options):
    generator = LanguageModel(folder, Manifest.read(folder))
    request = generator.request(prompt, SamplingParams(ignore_eos=True, **options))
    return [token for piece in generator.stream(request) for token in piece.token_ids]


def test_both_graphs_pass_the_parity_check_and_the_dates_are_still_translated(dates):
    levels = levels_of(check_parity(dates), PRECISIONS[PRECISION])
    assert {f"cached ort {PRECISION}", f"cached ort-cpu {PRECISION}"} <= {level.name for level in levels}
    assert [level for level in levels if not level.passed] == []
    manifest = Manifest.read(dates)
    translator = TranslationModel(dates, manifest)
    pieces = translator.stream(translator.request(manifest.example["inputs"]["text"]))
    assert "".join(piece.text for piece in pieces) == manifest.example["answer"]


def test_the_manifest_says_which_tensors_of_which_graph_are_bytes_and_what_they_were_calibrated_with(dates):
    manifest = Manifest.read(dates)
    kept = {name for pair in manifest.graph("decoder").aliases.items() for name in pair}
    standard, served = manifest.graph("decoder"), manifest.signature_for("decoder", "ort-cpu")
    assert {spec.dtype for spec in (*standard.inputs, *standard.outputs) if spec.name in kept} == {"float32"}
    assert {spec.dtype for spec in (*served.inputs, *served.outputs) if spec.name in kept} == {"int8"}
    assert [spec for spec in served.inputs if spec.name not in kept] == [
        spec for spec in standard.inputs if spec.name not in kept
    ]
    (rounded,) = (one for one in manifest.passes["decoder"] if one["name"] == "quantise_caches")
    assert rounded["fired"] == len(kept) / 2
    assert rounded["calibration"]["source"] == "training data of dates-transformer"
    assert rounded["calibration"]["largest"].keys() == set(standard.aliases.values())
    assert "quantise_caches" not in {one["name"] for one in manifest.passes["encoder"]}


def test_caches_take_a_quarter_of_the_bytes_and_are_updated_in_place(language_model, writer):
    sizes = []
    for folder in (language_model, writer):
        caches = CachedDecoder(decoder(folder), 2)
        addresses = [buffer.address for buffer in caches.caches.values()]
        caches.step(IDS, np.zeros(2, np.int64))
        assert [buffer.address for buffer in caches.caches.values()] == addresses
        assert all(buffer.numpy().any() for buffer in caches.caches.values())
        sizes.append(nbytes(caches.caches))
    assert sizes[0] == 4 * sizes[1]


def test_slots_and_their_plan_are_of_bytes_and_what_is_read_of_a_row_is_restored_to_another(writer):
    runner = decoder(writer)
    slots = KVCache(runner, 3)
    assert CachePlan.of(Manifest.read(writer).signature_for("decoder", "ort-cpu"), 3).nbytes == slots.nbytes
    slots.decoder(0, 2).step(IDS, np.zeros(2, np.int64))
    blocks = slots.cached(0, 0, 6)
    assert {block.dtype for block in blocks} == {np.dtype(np.int8)}
    slots.restore(2, 0, blocks)
    slots.copy([0], [1], 6)
    rows = [slots.decoder(row, row + 1).step(IDS[:1, :1], np.array([6]))["logits"] for row in (0, 1, 2)]
    # The same operations on the same numbers.
    assert np.array_equal(rows[0], rows[1]) and np.array_equal(rows[0], rows[2])
    slots.clear(2)
    assert not np.array_equal(slots.decoder(2, 3).step(IDS[:1, :1], np.array([6]))["logits"], rows[0])


def test_a_prompt_in_pieces_is_answered_as_one_at_once(writer):
    runner = decoder(writer)
    whole, pieces = CachedDecoder(runner, 2), CachedDecoder(runner, 2)
    wanted = whole.step(IDS, np.zeros(2, np.int64))["logits"][:, -1]
    pieces.step(IDS[:, :2], np.zeros(2, np.int64))
    found = pieces.step(IDS[:, 2:], np.full(2, 2))["logits"][:, -1]  # of several rows: row by row
    np.testing.assert_allclose(found, wanted, atol=0.02 * wanted.std())


def test_what_one_row_asks_changes_no_bit_of_what_others_are_answered(writer):
    others = np.random.default_rng(0).integers(3, 60, (3, 7))
    answers = [
        np.asarray(CachedDecoder(decoder(writer), 4).step(np.vstack([first, others]), np.zeros(4, np.int64))["logits"])
        for first in (np.full(7, 5), np.arange(7) + 20)
    ]
    assert np.array_equal(answers[0][1:], answers[1][1:])  # each row by itself, in the same order of sums
    assert not np.array_equal(answers[0][0], answers[1][0])


def test_a_text_that_begins_as_an_earlier_one_did_goes_on_from_its_bytes(writer):
    prompt = [0, *range(20, 54)]  # more than a block of the prefix cache
    generator = LanguageModel(writer, Manifest.read(writer))
    options = SamplingParams(max_tokens=4, ignore_eos=True)
    answers = [
        [token for piece in generator.stream(generator.request(prompt, options)) for token in piece.token_ids]
        for _ in range(2)
    ]
    assert answers[0] == answers[1] and len(answers[0]) == 4
    assert tokens(writer, prompt, max_tokens=4) == answers[0]


@pytest.mark.parametrize(("before", "after"), [(None, "1"), ("0", "0")])
def test_queries_in_8_bits_are_asked_for_unless_the_environment_says_otherwise(writer, before, after, monkeypatch):
    monkeypatch.setenv(QUERIES, before or "")
    if before is None:
        monkeypatch.delenv(QUERIES)
    OrtRunner(writer / "decoder.onnx", Manifest.read(writer).graph("decoder"))
    assert os.getenv(QUERIES) == before, "a graph of floats asks for nothing"
    decoder(writer)
    assert os.getenv(QUERIES) == after


def test_floats_are_refused_where_bytes_are_kept(writer):
    runner = decoder(writer)
    caches = CachedDecoder(runner, 1)
    floats = {name: OrtBuffer.over(buffer.numpy().astype(np.float32)) for name, buffer in caches.caches.items()}
    with pytest.raises(InputError, match=r"tensor 'self_00_key_in' of type int8 and shape .*; found float32"):
        CachedDecoder.over(runner, floats, {}).step(IDS[:1], np.array([0]))


def test_tensorrt_reads_a_form_of_it_whose_caches_are_in_half_precision(dates):
    _, checks = validate_for_target(dates, "tensorrt")
    assert [check for check in checks if check.violations] == []
    form = Manifest.read(dates).signature_for("decoder", "tensorrt")
    assert {form.input(name).dtype for name in form.aliases.values()} == {"float16"}


def test_the_graph_that_explains_reads_the_same_bytes(explained_dates, tmp_path):
    folder = rewritten(explained_dates, PRECISION, tmp_path / "explained")
    manifest = Manifest.read(folder)
    served = {name: manifest.signature_for(name, "ort-cpu") for name in ("decoder", "explained")}
    for name in served["decoder"].aliases.values():
        assert served["explained"].input(name) == served["decoder"].input(name)
        assert served["decoder"].input(name).dtype == "int8"


def test_a_language_model_shows_its_attention_over_the_same_bytes(exported, prompts, tmp_path):
    explained = exported(exported.checkpoint(LANGUAGE_MODEL, write_language_model), explain=True)
    folder = rewritten(explained, PRECISION, tmp_path / "explained", prompts)
    manifest = Manifest.read(folder)
    served = {name: manifest.signature_for(name, "ort-cpu") for name in ("decoder", "explained")}
    for name in served["decoder"].aliases.values():
        assert served["explained"].input(name) == served["decoder"].input(name)
        assert served["decoder"].input(name).dtype == "int8"
    levels = levels_of(check_parity(folder), PRECISIONS[PRECISION])
    assert [level for level in levels if not level.passed] == []
    generator = LanguageModel(folder, manifest)
    options = SamplingParams(ignore_eos=True, max_tokens=6)
    plain = list(generator.stream(generator.request("the cat sat", options)))
    shown = list(generator.stream(generator.request("the cat sat", replace(options, explain=True))))
    assert [output.token_ids for output in shown] == [output.token_ids for output in plain]
    for output in shown:
        assert output.alignment.sum() == pytest.approx(1, abs=1e-3)


def test_a_recurrent_decoder_has_nothing_to_calibrate(explained_gru, tmp_path):
    manifest = Manifest.read(rewritten(explained_gru, PRECISION, tmp_path / "gru"))
    assert "quantise_caches" not in {one["name"] for one in manifest.passes["decoder"]}
    assert all(not one.types for one in manifest.lowered if one.target == "ort-cpu")


@pytest.mark.slow
def test_a_model_that_was_trained_on_nothing_needs_samples(exported, tmp_path):
    with pytest.raises(InputError, match="inputs to calibrate llama-tiny with"):
        export_onnx("llama-tiny", tmp_path / "artefact", precision=PRECISION, exported=exported("llama-tiny"))


def test_the_standards_graph_answers_as_the_lowered_one(writer):
    standard = OrtRunner(writer / "decoder.onnx", Manifest.read(writer).graph("decoder"))
    logits = [
        CachedDecoder(runner, 2).step(IDS, np.zeros(2, np.int64))["logits"] for runner in (standard, decoder(writer))
    ]
    assert np.abs(logits[0] - logits[1]).mean() < 0.02 * logits[0].std()
