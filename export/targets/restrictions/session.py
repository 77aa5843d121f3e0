"""The one restriction that is not read but tried: ONNX Runtime loads the graph."""

from __future__ import annotations

import re
from collections.abc import Iterator

from attendant.errors import ArtefactError
from export.targets.restrictions.graph import Graph
from export.targets.restrictions.restriction import Breach, Restriction
from export.targets.restrictions.sources import ORT
from export.targets.targets import Target

_NODE = re.compile(r"node with name '([^']*)'|Node \(([^)]*)\)")


def _session(graph: Graph, target: Target) -> Iterator[Breach]:
    from serving.runtime.ort.runner import OrtRunner  # other restrictions are read, and need no runtime

    try:
        OrtRunner(graph.path, graph.signature)
    except ArtefactError as error:
        named = _NODE.search(error.found)
        node = next(filter(None, named.groups()), None) if named else None
        yield Breach(node=node or "the graph", found=error.found)


SESSION = (Restriction(name="session", statement="the runtime loads the graph", source=ORT, find=_session),)
