"""The Attention nodes of a graph, which an engine shall run as one kernel each."""

from attendant.errors import ExportError
from export.targets.constraints.graph import Graph


def attention_nodes(graph: Graph) -> tuple[str, ...]:
    """Their names.

    Raises:
        ExportError: one has no name, or shares it, so that an engine could not say what became of it.
    """
    names = [str(node.proto.name) for node in graph.nodes if node.operator == "Attention"]
    if "" in names or len(set(names)) < len(names):
        raise ExportError(f"Attention nodes of different names in {graph.path}", str(names), "export the model again")
    return tuple(names)
