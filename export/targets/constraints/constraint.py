"""One thing that a runtime does not read, and where a graph does it all the same."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from export.targets.constraints.graph import Graph
from export.targets.targets import RuntimeTarget


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A place where a constraint is broken.

    Attributes:
        node: the node, or the part of the graph.
        found: what is there.
    """

    node: str
    found: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraint:
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
    find: Callable[[Graph, RuntimeTarget], Iterable[Violation]]
    operators: frozenset[str] = frozenset()

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return _constraint_named, (self.name,)  # what is registered is so in every process; its functions do not travel

    def count_nodes(self, graph: Graph) -> int:
        """How many of a graph's nodes the statement is about."""
        return sum(not self.operators or node.operator in self.operators for node in graph.nodes)


CONSTRAINTS: dict[str, Constraint] = {}
"""Every constraint that a module has registered (:mod:`export.targets.constraints.registry` imports them all)."""


def _constraint_named(name: str) -> Constraint:
    return CONSTRAINTS[name]
