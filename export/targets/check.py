"""Hold every graph of an artefact to every restriction of a runtime, one by one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attendant.errors import ExportError
from attendant.manifest import Manifest
from export.targets.restrictions.graph import Graph
from export.targets.restrictions.registry import RESTRICTIONS
from export.targets.restrictions.restriction import Breach, Restriction
from export.targets.targets import Target, target_named


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One restriction held against one graph.

    Attributes:
        graph: the graph's name.
        restriction: what was asked.
        considered: how many nodes it is about.
        breaches: where it does not hold.
    """

    graph: str
    restriction: Restriction
    considered: int
    breaches: tuple[Breach, ...]

    def to_json(self) -> dict[str, Any]:
        """The verdict as plain JSON values."""
        return {
            "graph": self.graph,
            "restriction": self.restriction.name,
            "statement": self.restriction.statement,
            "source": self.restriction.source,
            "nodes": self.considered,
            "holds": not self.breaches,
            "breaches": [{"node": breach.node, "found": breach.found} for breach in self.breaches],
        }


def hold_to_target(folder: Path, name: str) -> tuple[Target, list[Verdict]]:
    """Ask every restriction of a target of every graph.

    Args:
        folder: an exported artefact.
        name: of the target.

    Returns:
        The target's record, and one verdict for each graph and restriction.

    Raises:
        ArtefactError: a file is not what the manifest says.
        UnknownNameError: there is no such target.
    """
    target = target_named(name)
    manifest = Manifest.read_onnx(folder)
    graphs = (Graph(folder / f"{signature.name}.onnx", signature) for signature in manifest.graphs)
    return target, [verdict for graph in graphs for verdict in verdicts_of(graph, target)]


def verdicts_of(graph: Graph, target: Target) -> list[Verdict]:
    """Ask every restriction of a target of one graph."""
    return [
        Verdict(
            graph=graph.signature.name,
            restriction=restriction,
            considered=restriction.considered(graph),
            breaches=tuple(restriction.find(graph, target)),
        )
        for restriction in (RESTRICTIONS[name] for name in target.restrictions)
    ]


def require_target(target: Target, verdicts: Iterable[Verdict]) -> None:
    """Fail unless every restriction holds.

    Raises:
        ExportError: one does not; the message names graph, node and restriction, and counts the others.
    """
    broken = [(verdict, breach) for verdict in verdicts for breach in verdict.breaches]
    if broken:
        verdict, breach = broken[0]
        others = f", and {len(broken) - 1} more" if len(broken) > 1 else ""
        raise ExportError(
            f"{verdict.restriction.statement}, as {target.name} wants ({verdict.restriction.source})",
            f"in graph {verdict.graph}, at {breach.node}: {breach.found}{others}",
            "rewrite the module or its translation, or lower the graph for that target",
        )
