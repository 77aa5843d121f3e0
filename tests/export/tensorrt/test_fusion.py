"""Listings in the form that TensorRT's inspector prints; export/tensorrt/fusion.py says where it is known from."""

import json
from pathlib import Path

import pytest

from attendant.engine_manifest import Profile
from attendant.errors import ExportError
from attendant.manifest import Manifest
from export.targets.constraints.graph import Graph
from export.tensorrt.attention_nodes import attention_nodes
from export.tensorrt.attention_report import attention_report
from export.tensorrt.fusion import find_fused_attention
from export.tensorrt.phases import Form


def listing(*layers):
    described = [
        {
            "Name": name,
            "LayerType": kind,
            "Inputs": [],
            "Outputs": [],
            "TacticName": tactic,
            "StreamId": 0,
            "Metadata": "\x1e".join(f"[ONNX Layer: {node}]" for node in nodes),
        }
        for name, kind, tactic, nodes in layers
    ]
    return json.dumps({"Layers": described, "I/O Tensors": []})


PROJECTION = ("node_MatMul_3_myl0_1", "gemm", "sm90_xmma_gemm_f16f16", ["node_MatMul_3"])
PREFILL = ("_gemm_mha_v2_myl0_2", "kgen", "_gemm_mha_v2_0x8f", ["node_Mul", "node_Attention_1"])
DECODE = ("_gemv_mha_v1_myl0_4", "kgen", "_gemv_mha_v1_0x11", ["node_Attention_2"])
APART = ("__myl_MaxSubExpSumDivMul_myl0_7", "kgen", "__myl_MaxSubExpSumDivMul_0x3", ["node_Attention_2"])


def plugin_layer(name, plugin, metadata=None, kind="PluginV3", **more):
    """As TensorRT 11.1 prints a plugin: no tactic's name, and tensors with a Datatype."""
    tensor = {"Name": "queries", "Location": "Device", "Dimensions": [-1, 4, -1, 64], "Datatype": "Half"}
    layer = {"Name": name, "LayerType": kind, "Inputs": [tensor], "Constants": [], "Outputs": [tensor]}
    layer |= {"PluginType": plugin, "PluginVersion": "1", "TacticValue": "0x0000000000000000", "StreamId": 0}
    return layer | ({} if metadata is None else {"Metadata": metadata}) | more


def printed(*layers):
    return json.dumps({"Layers": layers, "Bindings": ["queries"], "Engine Metadata": ""})


FLASH = ("attention_1", "PluginV3", "flash_attention_kernel", ["attention_1"])
COMBINED = ("attention_2.combined", "PluginV3", "", [])
PLANNED = {"attention_1": "flash_attention", "attention_2.combined": "combine_splits"}


def report(layers, attention=(), plugins=None, number=0):
    profiles = tuple(Profile(name=name, shapes={}) for name in ("prefill", "decode"))
    nodes = tuple(attention)
    form = Form(source="g.onnx", path=Path("g.onnx"), profiles=profiles, attention=nodes, plugins=plugins or {})
    return attention_report("decoder", number, layers, form)


def test_layers_of_plugins_are_counted_by_plugin_and_native_ones_beside_them():
    assert report(listing(PROJECTION, FLASH, COMBINED), plugins=PLANNED) == {"combine_splits": 1, "flash_attention": 1}
    both = report(listing(PREFILL, FLASH), ["node_Attention_1"], {"attention_1": "flash_attention"})
    assert both == {"flash_attention": 1, "native": 1}


@pytest.mark.parametrize(
    "layer",
    [
        PROJECTION,
        ("attention_1", "kgen", "", ["attention_1"]),
        ("other", "PluginV3", "", ["another_node"]),
    ],
    ids=["missing", "no plugin", "of another node"],
)
def test_a_planned_plugin_that_is_no_layer_fails_by_name(layer):
    with pytest.raises(ExportError, match=r"each of the 2 plugins.*profile 'prefill'.*none for attention_1;.*native"):
        report(listing(layer, COMBINED), plugins=PLANNED)


COMBINE = plugin_layer("attention_2.combined", "combine_splits")


@pytest.mark.parametrize(
    "layer",
    [
        plugin_layer("attention_1", "flash_attention"),
        plugin_layer("attention_1", "attendant::flash_attention", "[ONNX Layer: attention_1]"),
        plugin_layer("attention_1_myl0_3", "flash_attention", "[ONNX Layer: attention_1]\x1f[ONNX Layer: cast_4]"),
        plugin_layer("x", "flash_attention", "[ONNX Layer: attention_1 | block_0 (Block)]"),
        plugin_layer("(Unnamed Layer* 7) [PluginV3]", "flash_attention"),
        plugin_layer("attention_1", "flash_attention", kind="PluginV2"),
    ],
    ids=["11.1", "namespace", "of several nodes", "local function", "no name", "of the old kind"],
)
def test_a_plugin_is_known_by_its_layers_name_origin_or_type(layer):
    counts = {"combine_splits": 1, "flash_attention": 1}
    assert report(printed(COMBINE, {"Name": "signal_1", "LayerType": "signal"}, layer), plugins=PLANNED) == counts


@pytest.mark.parametrize(
    "layers",
    [
        [plugin_layer("attention_1", "GroupNormalizationPlugin")],
        [plugin_layer("(Unnamed Layer* 7) [PluginV3]", "flash_attention")] * 2,
        [plugin_layer("other", "flash_attention", "[ONNX Layer: another_node]")],
        [],
    ],
    ids=["another plugin", "more than planned", "of another node", "none"],
)
def test_another_plugin_or_another_number_of_them_is_not_what_was_planned(layers):
    with pytest.raises(ExportError, match=r"each of the 2 plugins.*none for attention_1;"):
        report(printed(COMBINE, *layers), plugins=PLANNED)


def test_an_attention_in_a_fused_kernel_is_found_by_the_node_that_it_comes_from():
    fused = find_fused_attention(listing(PROJECTION, PREFILL, DECODE), 0, ["node_Attention_1", "node_Attention_2"])
    assert fused == {"node_Attention_1": "_gemm_mha_v2_myl0_2", "node_Attention_2": "_gemv_mha_v1_myl0_4"}
    assert report(listing(PROJECTION, PREFILL, DECODE), fused) == {"native": 2}


def test_each_profile_has_layers_of_its_own_and_answers_for_them_alone():
    behind = ("_gemv_mha_v1_myl1_2 [profile 1]", "kgen", "", ["node_Attention_1 [profile 1]"])
    apart = ("__myl_MaxSubExp_myl1_2 [profile 1]", "kgen", "", ["node_Attention_1 [profile 1]"])
    for number in (0, 1):
        assert report(listing(PREFILL, behind), ["node_Attention_1"], number=number) == {"native": 1}
    assert report(listing(PREFILL, apart), ["node_Attention_1"]) == {"native": 1}
    with pytest.raises(ExportError, match=r"profile 'decode'.*none for node_Attention_1"):
        report(listing(PREFILL, apart), ["node_Attention_1"], number=1)
    steps = plugin_layer("attention_1 [profile 1]", "flash_attention", "[ONNX Layer: attention_1 [profile 1]]")
    planned = {"attention_1": "flash_attention"}
    assert report(printed(plugin_layer("a", "b"), steps), plugins=planned, number=1) == {"flash_attention": 1}
    with pytest.raises(ExportError, match=r"profile 'prefill'.*none for attention_1"):
        report(printed(plugin_layer("a", "b"), steps), plugins=planned)


def test_an_attention_that_became_several_kernels_fails_by_name():
    with pytest.raises(ExportError, match=r"graph 'decoder'.*profile 'prefill'.*none for node_Attention_2"):
        report(listing(PROJECTION, PREFILL, APART), ["node_Attention_1", "node_Attention_2"])


def test_a_kernel_of_another_node_counts_for_none():
    assert find_fused_attention(listing(PREFILL), 0, ["node_Attention_9"]) == {"node_Attention_9": ""}


def test_a_kernel_named_by_its_tactic_alone_is_found():
    layer = ("node_Attention_1", "fused", "fmha_v2_flash_attention_fp16_S_64_sm90", ["node_Attention_1"])
    assert find_fused_attention(listing(layer), 0, ["node_Attention_1"]) == {"node_Attention_1": "node_Attention_1"}


@pytest.mark.parametrize(
    ("name", "kind", "tactic", "fused"),
    [
        ("kgen_mha_12", "kgen", "", True),
        ("__myl_mha_0x1", "kgen", "", True),
        ("node", "kgen_mha", "", True),
        ("node", "fused_multihead_attention", "", True),
        ("__myl_CastMulMax_myl0_3", "kgen", "sm90_xmma_gemm_f16f16", False),
        ("node_scaled_dot_product_attention_mul", "kgen", "", False),
        ("alpha_mhaz", "kgen", "", False),
    ],
)
def test_fused_kernels_are_known_by_mha_and_never_by_the_names_of_nodes(name, kind, tactic, fused):
    found = find_fused_attention(listing((name, kind, tactic, ["node_Attention_1"])), 0, ["node_Attention_1"])
    assert found == {"node_Attention_1": name if fused else ""}


def test_a_graph_without_attention_has_nothing_to_fuse():
    assert report(listing(PROJECTION), []) == {}


@pytest.mark.parametrize("text", ["", "{}", '{"Layers": ["_gemm_mha_v2_myl0_2"]}', "[1]"])
def test_another_form_is_an_error_and_never_a_pass(text):
    with pytest.raises(ExportError, match=r"inspector|in detail"):
        find_fused_attention(text, 0, ["node_Attention_1"])


def test_the_plan_of_a_graph_is_its_attention_nodes(dates_artefact, digits_artefact, explained_gru):
    def planned(folder, graph):
        return attention_nodes(Graph(folder / f"{graph}.onnx", Manifest.read(folder).graph(graph)))

    config = Manifest.read(dates_artefact).config
    assert (
        len(planned(dates_artefact, "encoder")) == config["encoder_layers" if "encoder_layers" in config else "layers"]
    )
    assert len(planned(digits_artefact, "model")) == Manifest.read(digits_artefact).config["layers"]
    assert planned(explained_gru, "decoder") == ()
