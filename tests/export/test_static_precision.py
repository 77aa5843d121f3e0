"""Static int8 from end to end: what an export holds, what it answers, and what makes it another export."""

import numpy as np
import onnx_ir as ir
import pytest

from attendant.errors import ConfigError, InputError
from attendant.manifest import Manifest
from export.artefact.fingerprint import fingerprint_of
from export.artefact.stage import export_onnx
from export.parity.cases import Spread
from export.parity.check import check_parity, spreads_of
from export.parity.parity import levels_of, require_parity
from export.precision.precisions import PRECISIONS
from export.precision.rewriting import rewrite_graphs
from export.targets.check import validate_for_target
from models.checkpoints.resolve import checkpoint_named
from models.train.date_data import held_out as held_out_dates
from models.train.digit_data import held_out
from serving.runtime.cached_decoder import CachedDecoder
from serving.runtime.create_runners import create_runners
from serving.runtime.openvino.runner import OpenVinoRunner, openvino_is_installed
from serving.runtime.ort.runner import OrtRunner
from tests.export.rewritten import read_graphs, rewritten

START = 1  # of every date
STATIC = PRECISIONS["int8-static"]
needs_openvino = pytest.mark.skipif(not openvino_is_installed(), reason="OpenVINO is not installed")


@pytest.fixture(scope="module")
def digits(exported):
    """The shipped classifier in static int8."""
    return exported("digits-vit", precision="int8-static")


@pytest.fixture(scope="module")
def dates(dates_artefact, tmp_path_factory):
    """The graphs of the shipped translator in static int8."""
    return rewritten(dates_artefact, "int8-static", tmp_path_factory.mktemp("static") / "dates")


def logits(runner):
    pixels, labels = held_out()
    found = [runner.run({"pixels": part})["logits"].numpy().copy() for part in np.split(pixels, 12)]
    return np.concatenate(found), labels


def test_the_manifest_says_what_it_was_calibrated_with_and_which_weights_are_integers(digits):
    manifest = Manifest.read(digits)
    (outcome,) = manifest.passes["model"]
    assert manifest.precision == "int8-static"
    assert outcome["calibration"]["source"] == "training data of digits-vit"
    assert len(outcome["calibration"]["sha256"]) == 64
    rounded = {weight: kind for weight, kind in manifest.types["model"].items() if weight.endswith(".int8")}
    assert len(rounded) == outcome["fired"] > 20
    assert set(rounded.values()) == {"int8"}
    assert all(manifest.weights["model"][weight] for weight in rounded), "each knows its parameter"


def test_beside_the_signed_graph_lies_an_unsigned_one_that_onnx_runtime_is_served_with(digits):
    manifest = Manifest.read(digits)
    lowered = next(one for one in manifest.lowered if one.target == "ort-cpu")
    assert (lowered.file, lowered.passes[0]["name"]) == ("model.ort-cpu.onnx", "lower_signed_activations")
    integers = [node.outputs[0].dtype for node in ir.load(digits / lowered.file).graph if node.op_type[0] == "Q"]
    assert set(integers) == {ir.DataType.UINT8}
    served = create_runners(digits, manifest)["model"]
    directly = OrtRunner(digits / lowered.file, manifest.graph("model"))
    np.testing.assert_array_equal(logits(served)[0], logits(directly)[0])  # the same computation twice, in one process


def test_it_reads_held_out_digits_as_well_as_float32_does(digits, digits_artefact):
    shares = []
    for folder in (digits_artefact, digits):
        found, labels = logits(create_runners(folder, Manifest.read(folder))["model"])
        shares.append((found.argmax(1) == labels).mean())
    assert shares[0] - shares[1] < 0.01


@needs_openvino
def test_openvino_makes_of_the_signed_graph_what_onnx_runtime_makes_of_it(digits):
    (signature,) = Manifest.read(digits).graphs
    ours, theirs = (kind(digits / "model.onnx", signature) for kind in (OrtRunner, OpenVinoRunner))
    (found, _), (other, _) = logits(ours), logits(theirs)
    assert np.abs(found - other).max() < 0.02 * np.abs(found).max()


def test_the_parity_check_asks_with_images_like_the_samples_and_every_level_holds(digits, tmp_path):
    assert spreads_of(Manifest.read(digits))["pixels"].largest == 1
    levels = levels_of(check_parity(digits), STATIC)
    assert "ort-cpu int8-static" in {level.name for level in levels}
    require_parity(levels, tmp_path)


def test_it_meets_every_constraint_of_tensorrt(digits):
    _, checks = validate_for_target(digits, "tensorrt")
    assert [check for check in checks if check.violations] == []


def test_random_numbers_of_a_spread_stay_within_it_and_those_without_one_are_normal():
    drawn = Spread(mean=0.5, deviation=1, smallest=0, largest=1).draw(np.random.default_rng(0), (100,))
    assert (drawn.min(), drawn.max(), drawn.dtype) == (0, 1, np.float32)
    plain = Spread().draw(np.random.default_rng(0), (100,))
    np.testing.assert_array_equal(plain, np.random.default_rng(0).standard_normal(100, dtype=np.float32))


def test_a_translator_reads_held_out_dates_as_in_float32(dates, dates_artefact):
    manifest, texts = Manifest.read(dates_artefact), held_out_dates(60)
    checkpoint = checkpoint_named("dates-transformer")
    answers = []
    for folder in (dates_artefact, dates):
        runners = {one.name: OrtRunner(folder / f"{one.name}.onnx", one) for one in manifest.graphs}
        answers.append([answer(runners, tokens) for tokens in sources(checkpoint, texts)])
    assert np.mean([one == other for one, other in zip(*answers, strict=True)]) > 0.98


def sources(checkpoint, texts):
    from attendant.tokenization import load_tokenizer

    return [load_tokenizer(checkpoint.folder).encode(text, 48) for text, _ in texts]


def answer(runners, tokens):
    ids = np.array([tokens])
    source = {"source_ids": ids, "source_mask": np.ones_like(ids, dtype=bool)}
    decoder = CachedDecoder(runners["decoder"], 1, {**source, **runners["encoder"].run(dict(source))})
    new, chosen = START, []
    for position in range(11):
        new = int(decoder.step(np.array([[new]]), np.array([position]))["logits"].argmax())
        chosen.append(new)
    return chosen


def test_samples_make_another_export_by_what_they_hold_and_not_by_where_they_lie(tmp_path):
    options = {"precision": "int8-static", "explain": False, "uint8": False}
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "texts").write_text("4 july 1776")
    prints = {name: fingerprint_of("digits-vit", {**options, "calibration": str(tmp_path / name)}) for name in "ab"}
    assert prints["a"] == prints["b"] != fingerprint_of("digits-vit", options)
    (tmp_path / "b" / "texts").write_text("5 july 1776")
    assert fingerprint_of("digits-vit", {**options, "calibration": str(tmp_path / "b")}) != prints["b"]


def test_samples_for_a_precision_that_measures_nothing_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="a precision that is calibrated: fp8, int8-static, int4-kv8; found fp32"):
        export_onnx("digits-vit", tmp_path / "out", calibration=tmp_path)


def test_a_preset_without_samples_is_refused_before_anything_is_replaced(tiny_classifier):
    graphs = read_graphs(tiny_classifier)
    with pytest.raises(InputError, match="inputs to calibrate vit-tiny with"):
        rewrite_graphs(STATIC, checkpoint_named("vit-tiny"), tiny_classifier, graphs)
    assert "QuantizeLinear" not in {node.op_type for graph in graphs for node in graph.model.graph}
