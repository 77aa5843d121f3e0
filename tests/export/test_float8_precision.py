"""FP8 from end to end: what an export holds, that two evaluators agree on it, what it answers, and what refuses it."""

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx.reference import ReferenceEvaluator

from attendant.errors import InputError
from attendant.manifest import Manifest
from export.parity.check import check_parity
from export.parity.parity import levels_of, require_parity
from export.passes.tensorrt.allow_decomposition import without_decomposition
from export.precision.precisions import PRECISIONS
from export.quality.budgets import budget_of, verdicts_of
from export.quality.measure import measure_quality
from export.targets.check import validate_for_target
from models.train.digit_data import held_out
from serving.runtime.create_runners import create_runners
from serving.runtime.ort.runner import OrtRunner
from tests.export.passes.layers import session
from tests.export.reference_runner import ReferenceRunner
from tests.export.rewritten import rewritten

FLOAT8 = PRECISIONS["fp8"]
IMAGES = 8
QUANTISERS = onnx.parser.parse_model(
    '<ir_version: 10, opset_import: ["" : 24]> g (float16[N] x, float16 s) => (float16[N] y)'
    "{ q = QuantizeLinear <output_dtype = 17> (x, s) y = DequantizeLinear(q, s) }"
)


@pytest.fixture(scope="module")
def digits(exported):
    """The shipped classifier in FP8."""
    return exported("digits-vit", precision="fp8")


@pytest.fixture(scope="module")
def form(digits, tmp_path_factory):
    """TensorRT's form of it without the last attribute, which is not of the standard."""
    path = tmp_path_factory.mktemp("form") / "model.onnx"
    ir.save(without_decomposition(ir.load(digits / "model.tensorrt.onnx")), path)
    return path


def logits(runner, count=IMAGES):
    return runner.run({"pixels": held_out()[0][:count]})["logits"].numpy().copy()


def test_the_manifest_says_what_it_was_calibrated_with_and_which_weights_are_float8(digits):
    manifest = Manifest.read(digits)
    rounding, narrowing = manifest.passes["model"]
    assert (manifest.precision, manifest.runtimes) == ("fp8", ("onnxruntime",))
    assert (rounding["name"], narrowing["name"]) == ("quantise_float8", "lower_precision")
    assert rounding["calibration"]["source"] == "training data of digits-vit"
    float8 = {weight: kind for weight, kind in manifest.types["model"].items() if weight.endswith(".float8")}
    assert len(float8) == rounding["fired"] > 20 and len({*float8.values()}) == 1
    assert all(manifest.weights["model"][weight] for weight in float8), "each knows its parameter"


def test_products_read_what_was_rounded_and_scales_are_numbers_of_half_precision(digits):
    graph = ir.load(digits / "model.tensorrt.onnx").graph
    products = [node for node in graph if node.op_type == "MatMul"]
    assert products
    for product in products:
        for value in product.inputs:
            restoring = value.producer()
            assert restoring.op_type == "DequantizeLinear" and value.dtype == ir.DataType.FLOAT16
            assert restoring.inputs[0].dtype == ir.DataType.FLOAT8E4M3FN
            scale = restoring.inputs[1].const_value.numpy()
            assert scale.dtype == np.float16 and scale.shape == () and scale >= np.finfo(np.float16).tiny


def test_every_rounded_weight_is_the_number_nearest_to_the_one_that_was_trained(digits, digits_artefact):
    before, after = (ir.load(folder / "model.onnx").graph.initializers for folder in (digits_artefact, digits))
    names = [name.removesuffix(".float8") for name in after if name.endswith(".float8")]
    assert len(names) > 20
    for name in names:
        scale = after[f"{name}.scale"].const_value.numpy().astype(np.float64)
        every = np.arange(256, dtype=np.uint8).view(ml_dtypes.float8_e4m3fn).astype(np.float64)
        levels = np.sort(every[np.isfinite(every)]) * scale
        trained = before[name].const_value.numpy().astype(np.float64)
        found = after[f"{name}.float8"].const_value.numpy().astype(np.float64) * scale
        place = np.clip(np.searchsorted(levels, trained), 1, len(levels) - 1)
        least = np.minimum(np.abs(trained - levels[place - 1]), np.abs(trained - levels[place]))
        assert np.abs(trained - found).max() > 0
        np.testing.assert_allclose(np.abs(trained - found), least, rtol=1e-5, atol=1e-6 * scale)


def test_onnx_runtime_rounds_and_multiplies_as_the_reference_evaluator_says(form):
    model = ir.load(form)
    rounding = [node for node in model.graph if node.op_type == "QuantizeLinear"]
    restored = [next(iter(node.outputs[0].consumers())).outputs[0] for node in rounding]
    products = [node for node in model.graph if node.op_type == "MatMul"]
    weights = {node.inputs[1] for node in products}
    seen = [*(node.inputs[0] for node in rounding), *restored, *weights, *(node.outputs[0] for node in products)]
    model.graph.outputs.extend(dict.fromkeys(seen))
    values = session(model).run(None, {"pixels": held_out()[0][:IMAGES]})
    found = {value.name: array for value, array in zip(model.graph.outputs, values, strict=True)}
    for node, value in zip(rounding, restored, strict=True):
        given, scale = found[node.inputs[0].name], node.inputs[1].const_value.numpy()
        wanted = ReferenceEvaluator(QUANTISERS).run(None, {"x": given, "s": scale})[0]
        same = found[value.name] == wanted
        assert same.mean() > 0.99  # the others lie in the middle of two levels, for a quotient in half precision
        np.testing.assert_allclose(found[value.name][~same], wanted[~same], rtol=0.126, atol=scale / 256)
    for node in products:
        factors = (found[value.name].astype(np.float64) for value in node.inputs)
        wanted = np.matmul(*factors)
        np.testing.assert_allclose(found[node.outputs[0].name], wanted, rtol=1e-3, atol=1e-3 * np.abs(wanted).max())


def test_the_reference_evaluator_answers_as_onnx_runtime_does(digits, digits_artefact, form):
    signature = Manifest.read(digits).graph("model")
    whole = logits(create_runners(digits_artefact, Manifest.read(digits_artefact))["model"])
    for kind in (OrtRunner, ReferenceRunner):
        found = logits(kind(form, signature))
        # Each adds in its own order, and a number in the middle of two levels falls to either side.
        assert 0 < np.abs(found - whole).mean() < FLOAT8.budget.drift * whole.std() / 4
        assert (found.argmax(1) == whole.argmax(1)).all()


@pytest.mark.planted
def test_an_activation_scale_that_is_wrong_is_seen_in_the_answers(digits, form, tmp_path):
    signature, model = Manifest.read(digits).graph("model"), ir.load(form)
    scales = [name for name in model.graph.initializers if name.endswith(".activation_scale")]
    for name in scales:
        value = model.graph.initializers[name]
        value.const_value = ir.tensor((value.const_value.numpy() / 16).astype(np.float16), name=name)
    ir.save(model, tmp_path / "model.onnx")
    right, wrong = (logits(OrtRunner(path, signature)) for path in (form, tmp_path / "model.onnx"))
    assert np.abs(right - wrong).mean() > np.abs(right).std()


def test_every_parity_level_holds_and_what_is_lost_is_within_the_budget(digits, tmp_path):
    levels = levels_of(check_parity(digits), FLOAT8)
    assert {"ort fp8", "tensorrt's form fp8"} <= {level.name for level in levels}
    require_parity(levels, tmp_path)
    verdicts = verdicts_of(measure_quality(digits), budget_of("fp8"))
    assert len(verdicts) >= 4 and all(verdict.passed for verdict in verdicts)


@pytest.mark.parametrize("target", ["tensorrt", "tensorrt-10.16", "ort-cpu", "ort-cuda", "openvino-cpu"])
def test_it_meets_every_constraint(digits, target):
    _, checks = validate_for_target(digits, target)
    assert [check for check in checks if check.violations] == []


def test_a_translator_has_caches_in_half_precision_and_its_logits_too_where_a_table_makes_them(
    dates_artefact, tmp_path
):
    manifest = Manifest.read(rewritten(dates_artefact, "fp8", tmp_path / "fp8"))
    decoder = manifest.graph("decoder")
    assert {decoder.input(name).dtype for name in decoder.aliases.values()} == {"float16"}
    (rounding,) = (one for one in manifest.passes["decoder"] if one["name"] == "quantise_float8")
    assert rounding["kept"] == ["logits: its weight model.embedding.weight is read by Gather, Transpose"]
    _, checks = validate_for_target(tmp_path / "fp8", "tensorrt")
    assert [check for check in checks if check.violations] == []


def test_a_model_without_a_wide_product_is_refused(text_encoder, tmp_path, monkeypatch):
    monkeypatch.setattr("export.passes.quantise.quantise_float8.MULTIPLE", 1 << 20)
    samples = tmp_path / "samples.npz"
    ids = np.ones((2, 4), np.int64)
    np.savez(samples, token_ids=ids, mask=ids.astype(bool), token_types=ids * 0)
    with pytest.raises(
        InputError, match=r"something to rewrite in fp8; found nothing in .*not of multiples of 1048576"
    ):
        rewritten(text_encoder, "fp8", tmp_path / "fp8", samples)
