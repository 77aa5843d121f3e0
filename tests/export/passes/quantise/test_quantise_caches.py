"""The pass on graphs that were exported, what it makes them cache, and how the lowering reads it."""

from dataclasses import replace

import numpy as np
import onnx_ir as ir
import pytest

from attendant.manifest import Manifest
from export.passes.ort.lower_cached_attention import LowerCachedAttention
from export.passes.ort.rotate_in_attention import RotateInAttention
from export.passes.quantise.quantise_caches import QuantiseCaches
from serving.runtime.cached_decoder import CachedDecoder
from serving.runtime.ort.runner import OrtRunner

IDS = np.array([[5, 9, 12, 7, 30, 8]])


@pytest.fixture
def decoder(language_model):
    """A Llama of two blocks whose keys are rotated."""
    return ir.load(language_model / "decoder.onnx")


def caches(model):
    return [value for value in model.graph.inputs if value.name.endswith(("key_in", "value_in"))]


def everything(model, largest=2.0):
    return {value.name: largest for value in caches(model)}


def operators(model):
    return [node.op_type for node in model.graph]


def attentions(model):
    return [node for node in model.graph if node.op_type == "GroupQueryAttention"]


def filled(model, folder, path):
    """What the caches hold after a prompt, by name."""
    ir.save(model, path)
    types = {value.name: value.dtype for value in caches(model)}
    signature = Manifest.read(folder).graph("decoder")
    if ir.DataType.INT8 in types.values():
        signature = in_bytes(signature)
    runner = CachedDecoder(OrtRunner(path, signature), 1)
    runner.step(IDS, np.array([0]))
    return {name: buffer.numpy() for name, buffer in runner.caches.items()}


def in_bytes(signature):
    kept = {name for pair in signature.aliases.items() for name in pair}
    inputs, outputs = (
        tuple(replace(one, dtype="int8") if one.name in kept else one for one in side)
        for side in (signature.inputs, signature.outputs)
    )
    return replace(signature, inputs=inputs, outputs=outputs)


def test_whatever_is_cached_is_rounded_once_and_the_caches_stay_float32(decoder):
    outcome = QuantiseCaches(everything(decoder))(decoder)
    assert (outcome.fired, outcome.missed) == (4, [])
    for node in decoder.graph:
        if node.op_type == "TensorScatter":
            restored = node.inputs[1].producer()
            assert (restored.op_type, restored.inputs[0].producer().op_type) == ("DequantizeLinear", "QuantizeLinear")
    assert {value.dtype for value in caches(decoder)} == {ir.DataType.FLOAT}


def test_a_second_run_fires_nothing(decoder):
    QuantiseCaches(everything(decoder))(decoder)
    before = operators(decoder)
    assert QuantiseCaches(everything(decoder))(decoder).fired == 0
    assert operators(decoder) == before


def test_a_cache_that_calibration_did_not_see_is_a_miss_by_name(decoder):
    outcome = QuantiseCaches({name: 1.0 for name in everything(decoder) if name != "self_01_key_in"})(decoder)
    assert (outcome.fired, outcome.missed) == (3, ["self_01_key_out: calibration saw no 'self_01_key_in'"])


def test_a_graph_without_a_cache_stays_as_it_is(tiny_translator):
    encoder = ir.load(tiny_translator / "encoder.onnx")
    assert QuantiseCaches({})(encoder).fired == 0


def test_a_cache_holds_whole_steps_and_no_more_than_the_largest(decoder, language_model, tmp_path):
    exact = filled(decoder, language_model, tmp_path / "exact.onnx")["self_00_key_in"]
    largest = float(np.abs(exact).max()) / 2
    QuantiseCaches(everything(decoder, largest))(decoder)
    found = filled(decoder, language_model, tmp_path / "rounded.onnx")["self_00_key_in"]
    step = largest / 127
    np.testing.assert_allclose(found, np.rint(found / step) * step, atol=1e-6)
    np.testing.assert_allclose(found, np.clip(exact, -128 * step, largest), atol=0.51 * step)
    assert float(found.max()) == pytest.approx(largest)


def test_a_cache_that_is_always_zero_has_a_scale(decoder):
    QuantiseCaches(everything(decoder, 0.0))(decoder)
    scales = [value for name, value in decoder.graph.initializers.items() if name.endswith("_in.scale")]
    assert len(scales) == 4
    assert all(value.const_value.numpy() > 0 for value in scales)


@pytest.mark.parametrize("artefact", ["language_model", "windowed_language_model"])
def test_lowered_the_caches_are_the_integers_that_the_standards_graph_rounds_to(artefact, request, tmp_path):
    folder = request.getfixturevalue(artefact)
    model = ir.load(folder / "decoder.onnx")
    QuantiseCaches(everything(model))(model)
    kept = filled(model, folder, tmp_path / "standard.onnx")
    assert LowerCachedAttention()(model).fired == 2
    RotateInAttention()(model)
    assert {value.dtype for value in caches(model)} == {ir.DataType.INT8}
    for node in attentions(model):
        assert node.attributes.get_int("kv_cache_bit_width") == 8
        assert [value.name for value in node.inputs[12:]] == [f"{value.name}.scale" for value in node.inputs[3:5]]
    integers = filled(model, folder, tmp_path / "lowered.onnx")
    for name, held in kept.items():
        # The second block's come out of an attention whose queries the runtime rounds as well.
        assert np.abs(integers[name] - held / (2 / 127)).max() < (0.01 if "_00_" in name else 1.01), name


def damaged(model, change):
    """The first TensorScatter, with what rounds its update changed."""
    node = next(node for node in model.graph if node.op_type == "TensorScatter")
    restored = node.inputs[1].producer()
    change(model, node, restored.inputs[0].producer(), restored)


def forget(model, scatter, rounding, restoring):
    scatter.replace_input_with(1, rounding.inputs[0])


def shift(model, scatter, rounding, restoring):
    zero = ir.Value(name="one", const_value=ir.tensor(np.array(1, np.int8)), type=ir.TensorType(ir.DataType.INT8))
    model.graph.initializers.add(zero)
    for node in (rounding, restoring):
        node.replace_input_with(2, zero)


def spread(model, scatter, rounding, restoring):
    steps = ir.tensor(np.ones(8, np.float32))
    scale = ir.Value(name="steps", const_value=steps, type=ir.TensorType(ir.DataType.FLOAT))
    model.graph.initializers.add(scale)
    for node in (rounding, restoring):
        node.replace_input_with(1, scale)


@pytest.mark.planted
@pytest.mark.parametrize(
    ("change", "why"),
    [
        (forget, "of keys and values, only one is rounded"),
        (shift, "what it caches is rounded by more than one scale, or not around 0"),
        (spread, "what it caches is rounded by more than one scale, or not around 0"),
    ],
)
def test_rounding_that_the_runtimes_node_has_not_is_a_miss(decoder, change, why):
    QuantiseCaches(everything(decoder))(decoder)
    damaged(decoder, change)
    outcome = LowerCachedAttention()(decoder)
    assert outcome.fired == 1
    assert [miss.split(": ", 1)[1] for miss in outcome.missed] == [why]
