"""What became of the attention that was planned, read from what an engine says of its layers: kernels and plugins.

TensorRT's inspector prints ``{"Layers": [{"Name", "LayerType", "TacticName", "Metadata", …}]}``, the layers of all
profiles, whose names end in ``[profile 1]`` for all but the first. Metadata names the ONNX nodes that a layer comes
from, ``[ONNX Layer: node]`` each, with `` | function`` behind a node of a local function; not every layer has it. Fused
attention is ``_gemm_mha_v2`` (several queries), ``_gemv_mha_v1`` (one query), or another kernel of a type or name with
mha, fmha or flash attention in it. A plugin's layer is called as its node, or comes from it; its LayerType is
``PluginV3`` (``PluginV2`` of the old kind), its PluginType the plugin.

Sources: TensorRT's developer guide, engine inspector; processMetadata of onnx-tensorrt; what NVIDIA/TensorRT's
trt-engine-explorer and .agents/skills/trt-perf-analysis read; NVIDIA/TensorRT #4537; a public script that holds an
engine of TensorRT 11.1.0.106 to its PluginV3 layers by LayerType, PluginType and Name. Not seen by us on a machine.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from attendant.errors import ExportError

_KERNEL = re.compile(r"(?<![a-z0-9])mha(?![a-z0-9])|fmha|multi_?head_?attention|flash_?att", re.IGNORECASE)
_NODE = re.compile(r"\[ONNX Layer: ([^\]|]+)")
_PROFILE = re.compile(r"\s*\[profile +(\d+)\]?")
_NAMES_ONLY = "an engine that tells its layers in detail"


def find_fused_attention(layers: str, profile: int, nodes: Iterable[str]) -> dict[str, str]:
    """Which kernel each Attention node became.

    Args:
        layers: what the inspector printed.
        profile: the number of the one that counts.
        nodes: the names of the graph's Attention nodes.

    Returns:
        Node → the layer's name; empty where the node is in no attention kernel.

    Raises:
        ExportError: the text is not in the form above.
    """
    kernels = [
        layer
        for layer in _layers(layers, profile)
        if any(_KERNEL.search(str(layer.get(part, ""))) for part in ("Name", "TacticName", "LayerType"))
    ]
    made = {node: str(layer["Name"]) for layer in kernels for node in _origins(layer)}
    return {node: made.get(node, "") for node in nodes}


def find_plugins(layers: str, profile: int, planned: Mapping[str, str]) -> dict[str, str]:
    """Which layer each plugin's node became.

    Args:
        layers: what the inspector printed.
        profile: the number of the one that counts.
        planned: the graph's plugin nodes, each with its plugin.

    Returns:
        Node → the layer's name; empty where no layer of that plugin comes from the node.

    Raises:
        ExportError: the text is not in the form above.
    """
    plugins = [layer for layer in _layers(layers, profile) if "plugin" in str(layer.get("LayerType", "")).lower()]
    made = {
        node: str(layer["Name"])
        for layer in plugins
        for node in (*_origins(layer), _PROFILE.sub("", str(layer["Name"])))
        if node in planned and _plugin_of(layer) in ("", planned[node])
    }
    return {node: made.get(node, "") for node in planned} | _match_by_count(plugins, planned, made)


def require_all(graph: str, profile: str, made: Mapping[str, str], what: str, remedy: str) -> None:
    """Fail unless every node of a plan became a layer.

    Args:
        graph: its name.
        profile: its name.
        made: node → layer.
        what: the kind of nodes and of layers.
        remedy: where one is missing.

    Raises:
        ExportError: one did not; the message names it.
    """
    missing = [node for node, layer in made.items() if not layer]
    if missing:
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        raise ExportError(
            f"each of the {len(made)} {what} of graph {graph!r}, in profile {profile!r}",
            f"none for {', '.join(missing[:3])}{more}",
            remedy,
        )


def _layers(text: str, profile: int) -> list[dict[str, Any]]:
    try:
        layers = json.loads(text)["Layers"]
    except (ValueError, KeyError, TypeError) as error:
        raise ExportError(
            '{"Layers": […]} from TensorRT\'s inspector', text[:80], "see export/tensorrt/fusion.py"
        ) from error
    if not isinstance(layers, list) or not all(isinstance(layer, dict) and "Name" in layer for layer in layers):
        raise ExportError(_NAMES_ONLY, text[:80], "build with ProfilingVerbosity.DETAILED")
    profiles = [int(found[1]) if (found := _PROFILE.search(str(layer["Name"]))) else 0 for layer in layers]
    if not any(profiles):  # of one profile, or told of the one that was asked for
        return layers
    return [layer for layer, of in zip(layers, profiles, strict=True) if of == profile]


def _origins(layer: Mapping[str, Any]) -> list[str]:
    return [_PROFILE.sub("", name.strip()) for name in _NODE.findall(str(layer.get("Metadata", "")))]


def _plugin_of(layer: Mapping[str, Any]) -> str:
    return str(layer.get("PluginType", "")).rpartition("::")[2]


def _match_by_count(
    plugins: list[dict[str, Any]], planned: Mapping[str, str], made: Mapping[str, str]
) -> dict[str, str]:
    # Layers that say which plugin they are, but not from which node: they count where they are as many as the nodes.
    nameless = [layer for layer in plugins if not _origins(layer) and str(layer["Name"]) not in made.values()]
    found: dict[str, str] = {}
    for plugin in set(planned.values()):
        nodes = [node for node, wanted in planned.items() if wanted == plugin and node not in made]
        layers = [str(layer["Name"]) for layer in nameless if _plugin_of(layer) == plugin]
        found.update(zip(nodes, layers, strict=True) if len(nodes) == len(layers) else ())
    return found
