"""The plugins as nodes of an ONNX graph: their names, tensors and attributes.

Nothing here needs TensorRT, Triton or PyTorch. Attributes are whole numbers: TensorRT's field for a Python float is of
64 bits, where ONNX's is of 32.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import onnx_ir as ir
from onnx_ir.tape import Tape

NAMESPACE = "attendant"
"""Of every plugin; also the domain of its nodes, from which TensorRT's parser reads it since 10.10."""
VERSION = "1"
"""Of every quick plugin."""
_AHEAD_OF_TIME: dict[str, int | str] = {"plugin_namespace": NAMESPACE, "plugin_version": VERSION, "aot": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginNode:
    """What a node of one plugin looks like.

    Attributes:
        name: of the plugin; the node's operator.
        inputs: in the order in which the kernel takes them.
        outputs: likewise.
        attributes: whole numbers that are fixed when the engine is built.
        aliases: output → input at the same address.
    """

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: tuple[str, ...] = ()
    aliases: tuple[tuple[str, str], ...] = ()


_PARTS = ("parts", "bases")
_WINDOWS = ("window", "shift")
FLASH = PluginNode(
    name="flash_attention",
    inputs=("queries", "keys", "values", "lengths"),
    outputs=("attended",),
    attributes=("causal",),
)
DECODE = PluginNode(
    name="decode_attention",
    inputs=("queries", "keys", "values", "lengths"),
    outputs=_PARTS,
    attributes=("causal", "rows", "splits"),
)
COMBINE = PluginNode(name="combine_splits", inputs=_PARTS, outputs=("attended",), attributes=("heads", "element_type"))
_NEW, _PAST = ("queries", "new_keys", "new_values"), ("past_keys", "past_values", "start")
DECODE_APPEND = PluginNode(
    name="decode_append_attention",
    inputs=(*_NEW, *_PAST),
    outputs=(*_PARTS, "present_keys", "present_values"),
    attributes=("rows", "splits"),
    aliases=(("present_keys", "past_keys"), ("present_values", "past_values")),
)
DECODE_APPEND_ROTARY = replace(
    DECODE_APPEND, name="decode_append_rotary_attention", inputs=(*_NEW, "cosines", "sines", *_PAST)
)
WINDOW = PluginNode(
    name="window_attention",
    inputs=("queries", "keys", "values", "table"),
    outputs=("attended",),
    attributes=_WINDOWS,
)
COSINE_WINDOW = PluginNode(
    name="cosine_window_attention",
    inputs=("queries", "keys", "values", "table", "scales"),
    outputs=("attended",),
    attributes=_WINDOWS,
)
ADDITIVE = PluginNode(
    name="additive_attention",
    inputs=("query", "keys", "score", "annotations", "mask"),
    outputs=("context", "weights"),
    attributes=("longest",),
)
NODES = {
    node.name: node
    for node in (FLASH, DECODE, COMBINE, DECODE_APPEND, DECODE_APPEND_ROTARY, WINDOW, COSINE_WINDOW, ADDITIVE)
}
"""Plugin → its node."""


def plugin_outputs(
    tape: Tape, node: PluginNode, inputs: Sequence[ir.Value], attributes: Mapping[str, int], name: str
) -> Sequence[ir.Value]:
    """Add a node of a plugin, which an engine's listing of its layers will name.

    Args:
        tape: of the graph.
        node: which plugin.
        inputs: as many as it has, in order.
        attributes: a number for each of its attributes.
        name: of the node.

    Returns:
        Its outputs.
    """
    assert len(inputs) == len(node.inputs) and attributes.keys() == set(node.attributes)
    made = tape.op_multi_out(
        node.name, inputs, {**attributes, **_AHEAD_OF_TIME}, domain=NAMESPACE, num_outputs=len(node.outputs), name=name
    )
    assert isinstance(tape.graph_like, ir.Graph)
    tape.graph_like.opset_imports[NAMESPACE] = int(VERSION)
    return made
