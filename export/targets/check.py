"""Validate every graph of an artefact for a runtime, one constraint after another."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attendant.errors import ExportError
from attendant.manifest import Manifest
from export.bounded.process import guarded
from export.targets.constraints.constraint import Constraint, Violation
from export.targets.constraints.graph import Graph
from export.targets.constraints.registry import CONSTRAINTS
from export.targets.targets import RuntimeTarget, target_named


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstraintCheck:
    """One constraint on one graph.

    Attributes:
        graph: the graph's name.
        constraint: what must hold.
        nodes: how many it is about.
        violations: where it does not hold.
    """

    graph: str
    constraint: Constraint
    nodes: int
    violations: tuple[Violation, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "graph": self.graph,
            "constraint": self.constraint.name,
            "statement": self.constraint.statement,
            "source": self.constraint.source,
            "nodes": self.nodes,
            "holds": not self.violations,
            "violations": [{"node": violation.node, "found": violation.found} for violation in self.violations],
        }


def validate_for_target(folder: Path, target_name: str) -> tuple[RuntimeTarget, list[ConstraintCheck]]:
    """Check every constraint of a target on every graph, in the form that the target is given.

    Args:
        folder: an exported artefact.
        target_name: of the target.

    Returns:
        The target's record, and one check for each graph and constraint.

    Raises:
        ArtefactError: a file is not what the manifest says, or a graph fails as it is read or loaded.
        UnknownNameError: there is no such target.
    """
    target = target_named(target_name)
    manifest = Manifest.read_onnx(folder)
    checks = []
    for name in (signature.name for signature in manifest.graphs_for(target.form)):
        path = folder / manifest.file_for(name, target.form)
        with guarded(f"an ONNX graph at {path}"):
            checks += validate(Graph(path, manifest.signature_for(name, target.form)), target)
    return target, checks


def validate(graph: Graph, target: RuntimeTarget) -> list[ConstraintCheck]:
    return [
        ConstraintCheck(
            graph=graph.signature.name,
            constraint=constraint,
            nodes=constraint.count_nodes(graph),
            violations=tuple(constraint.find(graph, target)),
        )
        for constraint in (CONSTRAINTS[name] for name in target.constraints)
    ]


def require_valid(target: RuntimeTarget, checks: Iterable[ConstraintCheck]) -> None:
    """Fail unless every constraint holds.

    Raises:
        ExportError: one does not; the message names graph, node and constraint, and counts the others.
    """
    broken = [(check, violation) for check in checks for violation in check.violations]
    if broken:
        check, violation = broken[0]
        others = f", and {len(broken) - 1} more" if len(broken) > 1 else ""
        raise ExportError(
            f"{check.constraint.statement}, as {target.name} wants ({check.constraint.source})",
            f"in graph {check.graph}, at {violation.node}: {violation.found}{others}",
            "rewrite the module or its translation; an artefact of an older version has to be exported again",
        )
