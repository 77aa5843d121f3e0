"""The pass on attention over caches: the operator where it can be, the runtime's own where it cannot."""

from dataclasses import replace
from functools import cache

import numpy as np
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper

from attendant.manifest import Manifest
from attendant.sampling_params import SamplingParams
from export.artefact.stage import export_onnx
from export.parity.check import check_parity
from export.parity.parity import levels_of
from export.passes.lowering import FORM
from export.passes.ort.attend_in_cache import AttendInCache
from export.precision.precisions import PRECISIONS
from serving.engine.settings import EngineSettings
from serving.engine.text_generation_model import LanguageModel
from serving.runtime import create_runners as module
from serving.runtime.cached_decoder import CachedDecoder
from serving.runtime.create_runners import create_runners
from serving.runtime.ort.kernels import library
from serving.runtime.ort.kernels.library import kernels
from serving.runtime.ort.runner import OrtRunner, RowByRow
from serving.runtime.processor import AMX
from tests.text_checkpoints import write_language_model

needs_kernels = pytest.mark.skipif(kernels() is None, reason="needs an x86 processor with AVX2, and a C compiler")
PACKED = ["qkv", "", "", "keys", "values", "newest", "attended"]
INTEGERS = {"k_quant_type": "PER_TENSOR", "v_quant_type": "PER_TENSOR", "kv_cache_bit_width": 8}


def attention(size=64, inputs=(), kind=TensorProto.FLOAT, **attributes):
    """A graph of one GroupQueryAttention of four heads in two groups."""
    names = [*PACKED, *inputs]
    node = helper.make_node(
        "GroupQueryAttention",
        names,
        ["y", "new_keys", "new_values"],
        domain="com.microsoft",
        **{"num_heads": 4, "kv_num_heads": 2, **attributes},
    )
    shapes = {
        "qkv": (TensorProto.FLOAT, ["batch", "steps", 8 * size]),
        "keys": (kind, ["batch", 2, 16, size]),
        "values": (kind, ["batch", 2, 16, size]),
        "newest": (TensorProto.INT32, ["batch"]),
        "attended": (TensorProto.INT32, []),
        "queries": (TensorProto.FLOAT, ["batch", "steps", 4 * size]),
        **dict.fromkeys(("cos", "sin"), (TensorProto.FLOAT, [16, size // 2])),
        **dict.fromkeys(("key_step", "value_step", "sink"), (TensorProto.FLOAT, [])),
    }
    used = [helper.make_tensor_value_info(name, *shapes[name]) for name in dict.fromkeys(names) if name]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", "steps", 4 * size])]
    outputs += [helper.make_tensor_value_info(f"new_{name}", *shapes[name]) for name in ("keys", "values")]
    graph = helper.make_graph([node], "g", used, outputs)
    domains = [helper.make_opsetid("", 24), helper.make_opsetid("com.microsoft", 1)]
    return ir.from_proto(helper.make_model(graph, opset_imports=domains, ir_version=11))


STEPS = ("", "", "", "", "", "key_step", "value_step")
TURNED = ("cos", "sin", "", "", "", "key_step", "value_step")
TAKEN = {
    "plain": ({}, "CachedAttention", ["qkv", "keys", "values", "newest"]),
    "turned": (
        {"inputs": ("cos", "sin"), "do_rotary": 1},
        "CachedAttention",
        ["qkv", "keys", "values", "newest", "cos", "sin"],
    ),
    "of integers": (
        {"inputs": STEPS, "kind": TensorProto.INT8, **INTEGERS},
        "CachedAttentionInt8",
        ["qkv", "keys", "values", "newest", "key_step", "value_step"],
    ),
    "of integers and turned": (
        {"inputs": TURNED, "kind": TensorProto.INT8, "do_rotary": 1, **INTEGERS},
        "CachedAttentionInt8",
        ["qkv", "keys", "values", "newest", "key_step", "value_step", "cos", "sin"],
    ),
    "with a scale": ({"scale": 0.5, "local_window_size": -1}, "CachedAttention", ["qkv", "keys", "values", "newest"]),
}


@pytest.mark.parametrize("case", TAKEN)
def test_what_the_operator_computes_it_is_given(case):
    choices, operator, inputs = TAKEN[case]
    model = attention(**choices)
    assert AttendInCache()(model).fired == 1
    (node,) = model.graph
    assert (node.op_type, node.domain, [value.name for value in node.inputs]) == (operator, "attendant", inputs)
    assert [value.name for value in model.graph.outputs] == ["y", "new_keys", "new_values"]
    assert node.attributes.get_float("scale") == pytest.approx(choices.get("scale", 1 / 8))
    assert node.attributes.get_int("turns") == ("cos" in inputs)


LEFT = {
    "a window": {"local_window_size": 4},
    "a softcap": {"softcap": 30.0},
    "turned in pairs": {"inputs": ("cos", "sin"), "do_rotary": 1, "rotary_interleaved": 1},
    "a head of no whole vector": {"size": 24},
    "a head of half a vector of integers": {"size": 48, "inputs": STEPS, "kind": TensorProto.INT8, **INTEGERS},
    "a step a channel": {"inputs": STEPS, "kind": TensorProto.INT8, **INTEGERS, "k_quant_type": "PER_CHANNEL"},
    "four bits": {"inputs": STEPS, "kind": TensorProto.INT8, **INTEGERS, "kv_cache_bit_width": 4},
    "a sink": {"inputs": ("", "", "", "", "sink")},
}


@pytest.mark.parametrize("case", LEFT)
def test_what_it_does_not_compute_is_the_runtimes(case):
    model = attention(**LEFT[case])
    assert AttendInCache()(model).fired == 0
    assert [node.op_type for node in model.graph] == ["GroupQueryAttention"]


@pytest.fixture(scope="module")
def decoders(exported, tmp_path_factory):
    """A tiny Llama whose heads are whole vectors, in a precision, its caches of floats or of integers."""
    place = tmp_path_factory.mktemp("decoders")
    folder = exported.checkpoint("wide", lambda one: write_language_model(one, head_size=32, mlp_width=64))
    np.savez(place / "prompts.npz", token_ids=np.random.default_rng(0).integers(3, 60, (16, 12)))

    @cache
    def of(precision):
        samples = place / "prompts.npz" if PRECISIONS[precision].calibrated else None
        export_onnx(str(folder), place / precision, precision=precision, calibration=samples)
        return place / precision

    return of


@needs_kernels
@pytest.mark.parametrize("precision", ["int8", "int4", "int4-kv8"])
def test_a_decoder_of_nothing_but_our_operators_passes_the_parity_check(precision, decoders):
    folder = decoders(precision)
    manifest = Manifest.read(folder)
    graph = ir.load(folder / manifest.file_for("decoder", FORM)).graph
    assert not {"GroupQueryAttention", "MatMulInteger", "DequantizeLinear"} & {node.op_type for node in graph}
    assert isinstance(create_runners(folder, manifest)["decoder"], OrtRunner), "which takes all rows at once"
    assert all(level.passed for level in levels_of(check_parity(folder), PRECISIONS[precision]))


@needs_kernels
@pytest.mark.parametrize("precision", ["int8", "int4-kv8"])
def test_a_position_is_the_same_to_the_bit_in_parts_and_in_company(precision, decoders):
    folder = decoders(precision)
    runner = create_runners(folder, Manifest.read(folder))["decoder"]
    tokens = np.random.default_rng(0).integers(3, 60, (3, 30))
    together, in_parts, alone = CachedDecoder(runner, 3), CachedDecoder(runner, 3), CachedDecoder(runner, 1)
    whole = together.step(tokens, np.zeros(3, int))["logits"]
    in_parts.step(tokens[:, :11], np.zeros(3, int))
    rest = in_parts.step(tokens[:, 11:], np.full(3, 11))["logits"]
    np.testing.assert_array_equal(rest[:, -1], whole[:, -1])
    for step in range(30):
        one = alone.step(tokens[1:2, step : step + 1], np.array([step]))["logits"]
    np.testing.assert_array_equal(one[0, -1], whole[1, -1])
    apart = np.array([30, 11, 4])  # rows go on from wherever they are
    np.testing.assert_array_equal(
        together.step(tokens[:, :5], apart)["logits"][1, -1], alone.step(tokens[1:2, :5], apart[1:2])["logits"][0, -1]
    )


@needs_kernels
@pytest.mark.parametrize("precision", ["int8", "int4-kv8"])
def test_guesses_change_no_token_though_weights_have_few_bits(precision, decoders):
    model = LanguageModel(
        decoders(precision), Manifest.read(decoders(precision)), settings=EngineSettings(max_num_seqs=4)
    )
    options = SamplingParams(max_tokens=24, ignore_eos=True, temperature=0.7, seed=3)

    def answers(*several):
        requests = [model.request([0, *range(20, 34)], one) for one in several]
        return [[token for output in model.stream(one) for token in output.token_ids] for one in requests]

    plain, guessed = answers(options, replace(options, num_speculative_tokens=4))
    assert guessed == plain and len(plain) == 24 and model.engine.meter.drafted > 0


@needs_kernels
@pytest.mark.parametrize(("precision", "kind"), [("int8", RowByRow), ("int4", OrtRunner)])
def test_with_amx_the_runtime_multiplies_bytes_itself(precision, kind, decoders, monkeypatch):
    monkeypatch.setattr(module, "has_instructions", lambda wanted: wanted == AMX)
    folder = decoders(precision)
    assert type(create_runners(folder, Manifest.read(folder))["decoder"]) is kind


@needs_kernels
@pytest.mark.parametrize("precision", ["int8", "int4-kv8"])
def test_without_the_library_the_runtimes_own_graph_answers_alike(precision, decoders, monkeypatch):
    folder = decoders(precision)
    manifest, tokens = Manifest.read(folder), np.random.default_rng(0).integers(3, 60, (2, 9))
    answers = []
    for found in (kernels(), None):
        monkeypatch.setattr(library, "kernels", lambda found=found: found)
        decoder = CachedDecoder(create_runners(folder, manifest)["decoder"], 2)
        answers.append(decoder.step(tokens, np.zeros(2, int))["logits"])
    difference = np.abs(answers[0] - answers[1]).max()
    assert 0 < difference < 0.1 * np.abs(answers[1]).max(), "two roundings of the same numbers"
