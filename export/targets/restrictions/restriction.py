"""One thing that a runtime does not read, and where a graph does it all the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from export.targets.restrictions.graph import Graph
from export.targets.targets import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Breach:
    """A place where a restriction is broken.

    Attributes:
        node: the node, or the part of the graph.
        found: what is there.
    """

    node: str
    found: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Restriction:
    """A statement about graphs that a runtime's documentation makes, or that was measured.

    Attributes:
        name: how records and reports call it.
        statement: what must hold.
        source: who says so.
        find: yields every place where it does not hold.
        operators: the operators that it is about; none where it is about the whole graph.
    """

    name: str
    statement: str
    source: str
    find: Callable[[Graph, Target], Iterable[Breach]]
    operators: frozenset[str] = frozenset()

    def considered(self, graph: Graph) -> int:
        """How many of a graph's nodes the statement is about."""
        return sum(not self.operators or node.operator in self.operators for node in graph.nodes)
