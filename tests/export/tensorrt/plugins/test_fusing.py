"""Graphs with plugins compute what the standard's compute; what plugins cannot do is left alone, with a reason."""

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from attendant.manifest import Manifest
from export.graph.exported_graph import require_signature
from export.passes.tensorrt.passes import PASSES
from export.targets.check import validate
from export.targets.constraints.graph import Graph
from export.targets.targets import target_named
from export.tensorrt.passes.fuse_additive_attention import FuseAdditiveAttention
from export.tensorrt.passes.fuse_decode_append import FuseDecodeAppend
from export.tensorrt.passes.fuse_decode_attention import FuseDecodeAttention
from export.tensorrt.passes.fuse_flash_attention import FuseFlashAttention
from export.tensorrt.passes.fuse_window_attention import FuseWindowAttention
from tests.export.passes.modules import traced
from tests.export.tensorrt.plugins.evaluator import evaluated

pytestmark = pytest.mark.slow
TOLERANCE = 2e-5
"""Sums of float32 in another order, through a few layers, of numbers of the order of 1."""


def fused(path, out, fuse, **given):
    """Fuse a graph, twice; what the first time did."""
    model = ir.load(path)
    outcome = fuse(**given)(model)
    again = fuse(**given)(model)
    assert (again.fired, again.refused) == (0, outcome.refused) and not outcome.missed
    ir.save(model, out)
    return outcome


def standard(path, feeds):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # caches are copied here, and it says so
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds), strict=True))


def worst(found, wanted):
    assert found.keys() == wanted.keys()
    return max(float(np.abs(found[name] - wanted[name]).max()) for name in wanted)


def violations(folder, graph, path):
    signature, model = Manifest.read(folder).graph(graph), ir.load(path)
    for one in PASSES:
        one(model)
    ir.save(model, path)
    return [check for check in validate(Graph(path, signature), target_named("tensorrt")) if check.violations]


def drawn(folder, graph, sizes, **given):
    """Feeds of a graph: normal numbers, and what was given."""
    generator = np.random.default_rng(0)
    specs = Manifest.read(folder).graph(graph).inputs
    return {
        spec.name: given[spec.name]
        if spec.name in given
        else generator.normal(size=spec.shape(sizes)).astype(spec.dtype)
        for spec in specs
    }


def decoder_feeds(folder, start, steps, attended, **sizes):
    """New positions of rows of different lengths: caches are filled with numbers behind them too."""
    slots = np.arange(attended)
    position = np.array(start)[:, None] + np.arange(steps)
    sizes |= {"batch": len(start), "steps": steps, "attended": attended, "scored": 1}
    given = {
        "token_ids": np.random.default_rng(1).integers(0, 20, (len(start), steps)),
        "start": np.array(start),
        "self_mask": (slots <= position[:, :, None])[:, None],
        "scored": np.full((len(start), 1), steps - 1),
    }
    if "source" in sizes:
        given["source_mask"] = given["memory_mask"] = padding(len(start), sizes["source"])
    return drawn(folder, "decoder", sizes, **given)


def padding(batch, source):
    return np.arange(source) < np.linspace(1, source, batch).astype(int)[:, None]


PROMPT = {"start": [0, 0], "steps": 5, "attended": 5}
LATER = {"start": [3, 0, 6], "steps": 3, "attended": 9}
STEP = {"start": [3, 0, 6], "steps": 1, "attended": 7}


@pytest.mark.parametrize(
    ("fuse", "run", "limits"),
    [
        (FuseFlashAttention, PROMPT, {}),
        (FuseFlashAttention, LATER, {}),
        (FuseDecodeAttention, STEP, {}),
        (FuseDecodeAttention, LATER, {"queries": 3}),
    ],
)
def test_a_decoder_with_grouped_heads_computes_the_same(exported, tmp_path, fuse, run, limits):
    folder = exported("llama-tiny")
    outcome = fused(folder / "decoder.onnx", tmp_path / "decoder.onnx", fuse, **limits)
    assert outcome.fired == 2 and not outcome.refused
    feeds = decoder_feeds(folder, **run)
    wanted = standard(folder / "decoder.onnx", feeds)
    assert worst(evaluated(tmp_path / "decoder.onnx", feeds), wanted) < TOLERANCE
    assert violations(folder, "decoder", tmp_path / "decoder.onnx") == []


@pytest.mark.parametrize("rotary", [True, False], ids=["rotary", "rotated"])
@pytest.mark.parametrize(("run", "limits"), [(STEP, {}), (LATER, {"queries": 3})], ids=["step", "steps"])
def test_a_cache_that_the_attention_writes_holds_the_same(exported, tmp_path, run, limits, rotary):
    folder = exported("llama-tiny")
    outcome = fused(folder / "decoder.onnx", tmp_path / "decoder.onnx", FuseDecodeAppend, rotary=rotary, **limits)
    assert outcome.fired == 2 and not outcome.refused
    operators = {node.op_type for node in ir.load(tmp_path / "decoder.onnx").graph}
    assert ("decode_append_rotary_attention" in operators) == rotary and "TensorScatter" not in operators
    feeds = decoder_feeds(folder, **run)
    wanted = standard(folder / "decoder.onnx", feeds)
    assert worst(evaluated(tmp_path / "decoder.onnx", feeds), wanted) < TOLERANCE
    assert violations(folder, "decoder", tmp_path / "decoder.onnx") == []


def test_rotations_in_float16_are_taken_inside_with_angles_in_float32(exported, tmp_path):
    folder = exported("llama-tiny", precision="fp16")
    assert fused(folder / "decoder.onnx", tmp_path / "decoder.onnx", FuseDecodeAppend).fired == 2
    model = ir.load(tmp_path / "decoder.onnx")
    nodes = [node for node in model.graph if node.op_type == "decode_append_rotary_attention"]
    assert len(nodes) == 2 and all(node.inputs[3].dtype == ir.DataType.FLOAT for node in nodes)
    feeds = decoder_feeds(folder, **STEP)
    found, wanted = evaluated(tmp_path / "decoder.onnx", feeds), standard(folder / "decoder.onnx", feeds)
    assert worst(found, wanted) < 5e-3  # float16, which the two round in other places
    assert violations(folder, "decoder", tmp_path / "decoder.onnx") == []


def test_a_cache_is_written_inside_where_the_sources_attention_is_a_kernel_apart(dates_artefact, tmp_path):
    model = ir.load(dates_artefact / "decoder.onnx")
    appended, attended = (fuse(padded_behind=True)(model) for fuse in (FuseDecodeAppend, FuseDecodeAttention))
    assert (appended.fired, attended.fired) == (2, 2)
    assert len(appended.refused) == 2 and all("it updates no cache" in why for why in appended.refused)
    ir.save(model, tmp_path / "decoder.onnx")
    feeds = decoder_feeds(dates_artefact, **STEP, source=6)
    wanted = standard(dates_artefact / "decoder.onnx", feeds)
    assert worst(evaluated(tmp_path / "decoder.onnx", feeds), wanted) < TOLERANCE
    assert violations(dates_artefact, "decoder", tmp_path / "decoder.onnx") == []


def test_a_cache_that_something_else_reads_is_left_alone(exported, tmp_path):
    model = ir.load(exported("llama-tiny") / "decoder.onnx")
    cache = next(node.outputs[0] for node in model.graph if node.op_type == "TensorScatter")
    seen = ir.node("Identity", [cache], name="seen")
    model.graph.append(seen)
    outcome = FuseDecodeAppend()(model)
    assert outcome.fired == 1 and len(outcome.refused) == 1 and "something else reads its caches" in outcome.refused[0]


@pytest.mark.parametrize(("fuse", "run"), [(FuseFlashAttention, LATER), (FuseDecodeAttention, STEP)])
def test_a_decoder_over_a_padded_source_computes_the_same(dates_artefact, tmp_path, fuse, run):
    outcome = fused(dates_artefact / "decoder.onnx", tmp_path / "decoder.onnx", fuse, padded_behind=True)
    assert outcome.fired == 4 and not outcome.refused  # two layers of self- and of cross-attention
    feeds = decoder_feeds(dates_artefact, **run, source=6)
    wanted = standard(dates_artefact / "decoder.onnx", feeds)
    assert worst(evaluated(tmp_path / "decoder.onnx", feeds), wanted) < TOLERANCE
    assert violations(dates_artefact, "decoder", tmp_path / "decoder.onnx") == []


def test_an_encoder_of_padded_rows_computes_the_same(dates_artefact, tmp_path):
    encoder = dates_artefact / "encoder.onnx"
    assert fused(encoder, tmp_path / "encoder.onnx", FuseFlashAttention, padded_behind=True).fired == 2
    feeds = {"source_ids": np.random.default_rng(1).integers(3, 20, (3, 7)), "source_mask": padding(3, 7)}
    wanted, found = standard(dates_artefact / "encoder.onnx", feeds), evaluated(tmp_path / "encoder.onnx", feeds)
    for name, array in wanted.items():
        axis = array.shape.index(7)
        for row, kept in enumerate(feeds["source_mask"].sum(1)):  # what stands at padding, nobody reads
            ours, theirs = (x[row].take(range(kept), axis - 1) for x in (found[name], array))
            assert np.abs(ours - theirs).max() < TOLERANCE


def test_an_encoder_without_a_mask_computes_the_same(exported, tmp_path):
    folder = exported("vit-tiny")
    assert fused(folder / "model.onnx", tmp_path / "model.onnx", FuseFlashAttention).fired > 0
    feeds = drawn(folder, "model", {"batch": 3})
    assert worst(evaluated(tmp_path / "model.onnx", feeds), standard(folder / "model.onnx", feeds)) < TOLERANCE


@pytest.mark.parametrize("preset", ["swin-tiny", "swin-v2-tiny"])
def test_windows_compute_the_same_shifted_or_not(exported, tmp_path, preset):
    folder = exported(preset)
    outcome = fused(folder / "model.onnx", tmp_path / "model.onnx", FuseWindowAttention)
    assert outcome.fired == 4 and not outcome.refused
    model = ir.load(tmp_path / "model.onnx")
    assert {node.attributes.get_int("shift") for node in model.graph if node.domain == "attendant"} == {0, 1}
    feeds = drawn(folder, "model", {"batch": 2})
    assert worst(evaluated(tmp_path / "model.onnx", feeds), standard(folder / "model.onnx", feeds)) < TOLERANCE
    assert violations(folder, "model", tmp_path / "model.onnx") == []


def test_windows_in_float16_are_fused_behind_their_casts(exported, tmp_path):
    folder = exported("swin-tiny", precision="fp16")
    assert fused(folder / "model.onnx", tmp_path / "model.onnx", FuseWindowAttention).fired == 4
    feeds = drawn(folder, "model", {"batch": 2})
    found, wanted = evaluated(tmp_path / "model.onnx", feeds), standard(folder / "model.onnx", feeds)
    assert worst(found, wanted) < 5e-3  # float16, which the two round in other places
    assert violations(folder, "model", tmp_path / "model.onnx") == []


def test_additive_attention_computes_the_same_and_still_shows_its_weights(exported, tmp_path):
    folder = exported("gru-seq2seq-tiny")
    assert fused(folder / "decoder.onnx", tmp_path / "decoder.onnx", FuseAdditiveAttention, longest=64).fired == 1
    feeds = drawn(
        folder,
        "decoder",
        {"batch": 3, "source": 6},
        token_ids=np.array([[3], [4], [5]]),
        source_mask=padding(3, 6),
    )
    wanted = standard(folder / "decoder.onnx", feeds)
    assert "alignment" in wanted
    assert worst(evaluated(tmp_path / "decoder.onnx", feeds), wanted) < TOLERANCE
    assert violations(folder, "decoder", tmp_path / "decoder.onnx") == []


@pytest.mark.planted
@pytest.mark.parametrize("change", ["causal", "lengths"])
def test_a_broken_fusion_is_found_by_these_comparisons(exported, tmp_path, change):
    folder = exported("llama-tiny")
    model = ir.load(folder / "decoder.onnx")
    FuseFlashAttention()(model)
    plugins = [node for node in model.graph if node.op_type == "flash_attention"]
    for node in plugins if change == "causal" else ():
        node.attributes["causal"] = ir.AttrInt64("causal", 0)
    if change == "lengths":  # those of the start, without the new positions
        cast = plugins[0].inputs[3].producer()
        cast.replace_input_with(0, next(value for value in model.graph.inputs if value.name == "start"))
    ir.save(model, tmp_path / "decoder.onnx")
    feeds = decoder_feeds(folder, **LATER)
    found, wanted = evaluated(tmp_path / "decoder.onnx", feeds), standard(folder / "decoder.onnx", feeds)
    assert worst(found, wanted) > 100 * TOLERANCE


@pytest.mark.planted
@pytest.mark.parametrize(("attribute", "value"), [("shift", 0), ("window", 1)])
def test_a_broken_window_is_found_by_these_comparisons(exported, tmp_path, attribute, value):
    folder = exported("swin-tiny")
    model = ir.load(folder / "model.onnx")
    FuseWindowAttention()(model)
    for node in [node for node in model.graph if node.op_type == "window_attention"]:
        node.attributes[attribute] = ir.AttrInt64(attribute, value)
        if attribute == "window":
            table = node.inputs[3].const_value.numpy()
            node.inputs[3].const_value = ir.tensor(table[:, :1], name=node.inputs[3].name)
            node.inputs[3].shape = ir.Shape((len(table), 1))
    ir.save(model, tmp_path / "model.onnx")
    feeds = drawn(folder, "model", {"batch": 2})
    found, wanted = evaluated(tmp_path / "model.onnx", feeds), standard(folder / "model.onnx", feeds)
    assert worst(found, wanted) > 10 * TOLERANCE


def test_a_bias_that_is_no_table_is_refused_and_the_graph_left_as_it_was(exported, tmp_path):
    folder = exported("swin-tiny")
    model = ir.load(folder / "model.onnx")
    bias = next(node.inputs[3] for node in model.graph if node.op_type == "Attention")
    changed = bias.const_value.numpy().copy()
    changed[0, 0, 0, 1] += 1
    bias.const_value = ir.tensor(changed, name=bias.name)
    outcome = FuseWindowAttention()(model)
    assert outcome.fired == 3
    assert len(outcome.refused) == 1 and "differs between pairs of places of one offset" in outcome.refused[0]
    ir.save(model, tmp_path / "model.onnx")
    assert violations(folder, "model", tmp_path / "model.onnx") == []


def test_a_bias_and_a_window_of_positions_are_refused_with_their_reasons(exported, windowed_language_model, tmp_path):
    for graph in (exported("swin-tiny") / "model.onnx", windowed_language_model / "decoder.onnx"):
        outcome = fused(graph, tmp_path / "g.onnx", FuseFlashAttention)
        assert outcome.fired == 0 and outcome.refused
        assert all("no padding: a bias, or a window" in why for why in outcome.refused)


def test_more_rows_than_the_kernel_holds_are_refused(exported, tmp_path):
    outcome = fused(exported("llama-tiny") / "decoder.onnx", tmp_path / "g.onnx", FuseDecodeAttention, queries=9)
    assert outcome.fired == 0 and all("18 rows share a key head" in why for why in outcome.refused)


class Attention(nn.Module):
    """Two heads, and nothing behind them."""

    def forward(self, x):
        heads = x.unflatten(-1, (2, -1)).transpose(1, 2)
        return scaled_dot_product_attention(heads, heads, heads)


def test_attention_that_is_an_output_keeps_its_name():
    exported = traced(Attention(), 6, 64)
    assert FuseFlashAttention()(exported.model).fired == 1
    require_signature(exported.model, exported.signature)
