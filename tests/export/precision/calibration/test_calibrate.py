"""What calibration finds: checked against what the samples hold, and what a decode must have asked."""

import numpy as np
import onnx_ir as ir
import pytest

from attendant.errors import InputError
from attendant.manifest import Manifest
from export.passes.match.score_factors import score_factors
from export.passes.quantise.quantise_static import rounded_products
from export.precision.calibration.calibrate import calibrate, calibrate_caches
from export.precision.calibration.observed import ObservedRunner
from models.checkpoints.resolve import checkpoint_named
from models.train.digit_data import training_images
from serving.runtime.cached_decoder import CachedDecoder
from serving.runtime.ort.runner import OrtRunner
from tests.export.rewritten import read_graphs


def found(folder, graph, path=None):
    manifest = Manifest.read(folder)
    graphs = read_graphs(folder)
    (wanted,) = (one for one in graphs if one.name == graph)
    return calibrate(checkpoint_named(manifest.source), folder, graphs, wanted, path)


def activations(path):
    return {str(product.activation.name) for product in rounded_products(ir.load(path).graph)}


def factors(path):
    return {factor.source.name for factor in score_factors(ir.load(path).graph)}


def test_every_activation_that_a_product_reads_has_a_range_and_queries_and_keys_and_the_inputs_is_the_samples(
    digits_artefact,
):
    calibration = found(digits_artefact, "model")
    path = digits_artefact / "model.onnx"
    assert len(factors(path)) == 2 * sum(node.op_type == "Attention" for node in ir.load(path).graph) > 0
    assert calibration.largest.keys() == activations(path) | factors(path)
    assert all(magnitude > 0 for magnitude in calibration.largest.values())
    assert calibration.largest["pixels"] == training_images()[0][:128].max()


def test_it_says_how_many_samples_there_were_and_how_they_were_spread(digits_artefact):
    value, pixels = found(digits_artefact, "model").to_json(), training_images()[0][:128]
    assert (value["samples"], value["source"]) == (128, "training data of digits-vit")
    assert value["method"] == "largest magnitude"
    assert value["inputs"]["pixels"]["mean"] == pytest.approx(float(pixels.mean()), rel=1e-5)
    assert (value["inputs"]["pixels"]["smallest"], value["inputs"]["pixels"]["largest"]) == (0, 1)


def test_a_decoder_is_asked_by_prefills_and_single_steps_over_what_it_remembers(dates_artefact, monkeypatch):
    asked = []
    run = ObservedRunner.run

    def noted(self, feeds):
        asked.append((feeds["token_ids"].shape[1], int(feeds["start"][0])))
        return run(self, feeds)

    monkeypatch.setattr(ObservedRunner, "run", noted)
    calibration = found(dates_artefact, "decoder")
    path = dates_artefact / "decoder.onnx"
    assert calibration.largest.keys() == activations(path) | factors(path)
    starts = [start for _, start in asked]
    assert starts.count(0) == 128
    assert {10, 9} <= set(starts), "an ISO date has ten characters"
    assert max(starts) <= 10, "and then the decode ends"


def test_a_prompt_is_taken_whole_and_continued(language_model, tmp_path):
    np.savez(tmp_path / "prompts.npz", token_ids=np.ones((2, 5), dtype=np.int64))
    calibration = found(language_model, "decoder", tmp_path / "prompts.npz")
    assert calibration.largest.keys() == activations(language_model / "decoder.onnx")
    assert calibration.to_json()["inputs"] == {}


def test_the_range_of_a_cache_is_the_largest_number_that_a_decode_left_in_it(language_model, tmp_path):
    manifest, (graph,) = Manifest.read(language_model), read_graphs(language_model)
    capacity = manifest.graph("decoder").axes["steps"].max
    ids = np.random.default_rng(0).integers(3, 60, (1, capacity))  # nothing goes on from it
    np.savez(tmp_path / "prompts.npz", token_ids=ids)
    checkpoint = checkpoint_named(manifest.source)
    calibration = calibrate_caches(checkpoint, language_model, [graph], graph, tmp_path / "prompts.npz")
    decoder = CachedDecoder(OrtRunner(language_model / "decoder.onnx", manifest.graph("decoder")), 1)
    decoder.step(ids, np.array([0]))
    assert calibration.largest == {
        name: pytest.approx(float(np.abs(cache.numpy()).max())) for name, cache in decoder.caches.items()
    }


def test_ranges_of_the_same_samples_are_the_same(dates_artefact):
    assert found(dates_artefact, "encoder").largest == found(dates_artefact, "encoder").largest


def test_a_sample_on_which_the_model_overflows_is_refused(digits_artefact, tmp_path):
    np.savez(tmp_path / "huge.npz", pixels=np.full((1, 1, 8, 8), 3e38, np.float32))
    with pytest.raises(InputError, match=r"every activation is finite; found NaN or infinity in \['"):
        found(digits_artefact, "model", tmp_path / "huge.npz")


def test_a_sample_with_a_token_of_no_vocabulary_is_named(language_model, tmp_path):
    np.savez(tmp_path / "samples.npz", token_ids=np.array([[1, 2], [3, 10**6]]))
    with pytest.raises(InputError, match=r"samples on which decoder runs.*number 1.*1000000.*--calibration"):
        found(language_model, "decoder", tmp_path / "samples.npz")


def test_the_observed_graph_leaves_no_file_behind_and_returns_the_graphs_own_outputs(digits_artefact):
    before = sorted(digits_artefact.iterdir())
    runner = ObservedRunner(digits_artefact, read_graphs(digits_artefact)[0])
    assert sorted(digits_artefact.iterdir()) == before
    outputs = runner.run({"pixels": training_images()[0][:3]})
    assert outputs.keys() == {"logits"}
    assert {len(magnitudes) for magnitudes in runner.largest.values()} == {1}
