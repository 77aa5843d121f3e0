"""What became of the attention that was planned, read from what an engine says of its layers: kernels and plugins.

TensorRT's inspector prints JSON: ``{"Layers": [{"Name", "LayerType", "TacticName", "Metadata", …}]}``, where Metadata
names the ONNX nodes that a layer comes from, ``[ONNX Layer: node]`` each. Fused attention is ``_gemm_mha_v2`` (several
queries), ``_gemv_mha_v1`` (one query), or a kernel called fmha. Source: TensorRT's developer guide, engine inspector;
layer listings in public repositories and issues (NVIDIA/TensorRT #4537). A plugin's layer is of a type with "Plugin" in
it (``PluginV3``) and comes from its node, or is called as it. Not seen by us on a machine.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from models.errors import ExportError

_KERNEL = re.compile(r"_gem[mv]_mha_v\d|fmha|flash_att", re.IGNORECASE)
_NODE = re.compile(r"\[ONNX Layer: ([^\]]+)\]")
_NAMES_ONLY = "an engine that tells its layers in detail"


def fused_attention(layers: str, nodes: Iterable[str]) -> dict[str, str]:
    """Which kernel each Attention node became.

    Args:
        layers: what the inspector printed.
        nodes: the names of the graph's Attention nodes.

    Returns:
        Node → the layer's name; empty where the node is in no attention kernel.

    Raises:
        ExportError: the text is not in the form above.
    """
    kernels = [layer for layer in _layers(layers) if _is_attention(layer)]
    made = {node: str(layer["Name"]) for layer in kernels for node in _origins(layer)}
    return {node: made.get(node, "") for node in nodes}


def present_plugins(layers: str, nodes: Iterable[str]) -> dict[str, str]:
    """Which layer each plugin's node became.

    Args:
        layers: what the inspector printed.
        nodes: the names of the graph's plugin nodes.

    Returns:
        Node → the layer's name; empty where no plugin's layer comes from the node.

    Raises:
        ExportError: the text is not in the form above.
    """
    plugins = [layer for layer in _layers(layers) if "plugin" in str(layer.get("LayerType", "")).lower()]
    made = {node: str(layer["Name"]) for layer in plugins for node in (*_origins(layer), str(layer["Name"]))}
    return {node: made.get(node, "") for node in nodes}


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


def _layers(text: str) -> list[dict[str, Any]]:
    try:
        layers = json.loads(text)["Layers"]
    except (ValueError, KeyError, TypeError) as error:
        raise ExportError(
            '{"Layers": […]} from TensorRT\'s inspector', text[:80], "see export/engines/fusion.py"
        ) from error
    if not all(isinstance(layer, dict) and {"Name", "Metadata"} <= layer.keys() for layer in layers):
        raise ExportError(_NAMES_ONLY, text[:80], "build with ProfilingVerbosity.DETAILED")
    return list(layers)


def _is_attention(layer: Mapping[str, Any]) -> bool:
    return any(_KERNEL.search(str(layer.get(part, ""))) for part in ("Name", "TacticName", "LayerType"))


def _origins(layer: Mapping[str, Any]) -> list[str]:
    # Names of nodes of an engine with several profiles may end in "[profile 1]".
    return [re.sub(r"\s*\[profile \d+$", "", name).strip() for name in _NODE.findall(str(layer["Metadata"]))]
