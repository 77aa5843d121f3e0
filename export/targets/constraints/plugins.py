"""The constraint on nodes of our plugins: they are as the plugins were registered (export/graph/plugin_ops.py)."""

from export.graph.plugin_ops import NAMESPACE, NODES, VERSION
from export.targets.constraints.forms import of_nodes
from export.targets.constraints.graph import Graph, Node

_SOURCE = "TensorRT 11.4's Python bindings, plugin/_lib.py; onnx-tensorrt docs/operators.md, plugin support"
_FIXED = {"plugin_namespace": NAMESPACE, "plugin_version": VERSION, "aot": 1}


@of_nodes(
    "plugin-node",
    NODES,
    "plugins of ours: the inputs, outputs and whole attributes that were registered, and aot = 1",
    _SOURCE,
)
def plugin_node(graph: Graph, node: Node) -> str | None:
    if node.proto.domain != NAMESPACE:
        return None
    known = NODES[node.operator]
    given = {attribute.name for attribute in node.proto.attribute}
    if given != _FIXED.keys() | set(known.attributes):
        return f"attributes {sorted(given)}"
    wrong = [name for name, value in _FIXED.items() if node.attribute(name) != value]
    wrong += [name for name in known.attributes if not isinstance(node.attribute(name), int)]
    if wrong:
        return f"{wrong[0]} = {node.attribute(wrong[0])!r}"
    counts = len(node.proto.input), len(node.proto.output)
    return None if counts == (len(known.inputs), len(known.outputs)) else f"{counts[0]} inputs, {counts[1]} outputs"


@of_nodes(
    "plugin-alias",
    NODES,
    "plugins of ours: what is written in place is an input of the graph, and the output that shares its buffer",
    "TensorRT 11.4's Python bindings: PreviewFeature.ALIASED_PLUGIN_IO_10_03, IPluginV3OneBuildV2",
)
def plugin_alias(graph: Graph, node: Node) -> str | None:
    if node.proto.domain != NAMESPACE:
        return None
    known = NODES[node.operator]
    for output, source in known.aliases:
        made, read = node.output(known.outputs.index(output)), node.input(known.inputs.index(source))
        if made not in graph.outputs or read not in graph.inputs:
            return f"{made} at the address of {read}, of which one stays in the graph"
        if graph.signature.aliases.get(made) != read:
            return (
                f"{made} at the address of {read}; the manifest keeps it at that of {graph.signature.aliases.get(made)}"
            )
    return None
