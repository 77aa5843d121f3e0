"""The one constraint that is not read but tried: ONNX Runtime loads the graph."""

import re
from collections.abc import Iterator

from attendant.errors import ArtefactError
from export.targets.constraints.constraint import Violation
from export.targets.constraints.forms import of_graph
from export.targets.constraints.graph import Graph
from export.targets.constraints.sources import ORT
from export.targets.targets import RuntimeTarget

_NODE = re.compile(r"node with name '([^']*)'|Node \(([^)]*)\)")


@of_graph("session", "the runtime loads the graph", ORT)
def session(graph: Graph, target: RuntimeTarget) -> Iterator[Violation]:
    from serving.runtime.ort.runner import OrtRunner  # other constraints are read, and need no runtime

    try:
        OrtRunner(graph.path, graph.signature)
    except ArtefactError as error:
        named = _NODE.search(error.found)
        node = next(filter(None, named.groups()), None) if named else None
        yield Violation(node=node or "the graph", found=error.found)
