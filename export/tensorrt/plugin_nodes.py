"""The plugins of a graph: which nodes they are, and which caches they write in place."""

from collections.abc import Iterator

from export.graph.plugin_ops import NAMESPACE, NODES, PluginNode
from export.targets.constraints.graph import Graph, Node


def plugin_nodes(graph: Graph) -> dict[str, str]:
    return {str(node.proto.name): known.name for node, known in _plugins(graph)}


def plugin_aliases(graph: Graph) -> dict[str, str]:
    """Output → input of the graph, where a plugin wants both at one address."""
    return {
        node.output(known.outputs.index(output)): node.input(known.inputs.index(source))
        for node, known in _plugins(graph)
        for output, source in known.aliases
    }


def _plugins(graph: Graph) -> Iterator[tuple[Node, PluginNode]]:
    return ((node, NODES[node.operator]) for node in graph.nodes if node.proto.domain == NAMESPACE)
