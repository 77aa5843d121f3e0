"""Passes of onnx_ir that count: where each fired, what it refused, and what it missed, which is an error.

Rewrite      one pass                                        → RewriteResult
Rewrites     several in order, from one signature to another → RewritesResult
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import onnx_ir as ir
from onnx_ir.passes import InPlacePass, InvariantError, PassResult, Sequential
from onnx_ir.passes.common import RemoveUnusedNodesPass, TopologicalSortPass

from attendant.errors import AttendantError, ExportError

Condition = Callable[[ir.Model], None]
"""Raises an ExportError where a graph does not keep it."""
_REPORT = "export with another version of torch or onnxscript, or report this graph"


@dataclass(kw_only=True)
class RewriteResult(PassResult):
    """What one pass did to one graph.

    Attributes:
        name: of the pass.
        fired: how many places it rewrote.
        refused: for each place that is beyond the target's documented limits, the node and the limit.
        missed: for each place that should have been rewritten and was not, the node and why.
        kept: for each place that was left in float32, or in more bits than the others, on purpose, the node and why.
        calibration: what it was measured with and what was found, as JSON values; none where nothing is measured.
    """

    name: str
    fired: int = 0
    refused: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    calibration: dict[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """The result as plain JSON values, for the manifest."""
        value: dict[str, Any] = {"name": self.name, "fired": self.fired, "refusals": self.refused}
        if self.kept:
            value["kept"] = self.kept
        return value if self.calibration is None else {**value, "calibration": self.calibration}

    def require_no_misses(self) -> None:
        """Hold a pass to every place within the target's limits.

        Raises:
            ExportError: it did not fire where it should have; the message holds its reasons.
        """
        if self.missed:
            raise ExportError(
                f"{self.name} to fire {self.fired + len(self.missed)} times",
                f"{self.fired}: {'; '.join(self.missed)}",
                _REPORT,
            )


class Rewrite(InPlacePass):
    """A pass over one graph, called by the name of its module.

    Attributes:
        operators: it does nothing in a graph that has none of these; any graph is searched if none is named.
    """

    operators: ClassVar[frozenset[str]] = frozenset()

    @abstractmethod
    def rewrite(self, graph: ir.Graph, result: RewriteResult) -> None:
        """Rewrite every place, and count it in the result; nodes may be left unsorted, and unused ones where they are.

        Args:
            graph: changed in place.
            result: what is told of it.
        """

    def call(self, model: ir.Model) -> RewriteResult:
        result = RewriteResult(model, False, name=type(self).__module__.rpartition(".")[2])
        if not self.operators or any(node.op_type in self.operators for node in model.graph):
            self.rewrite(model.graph, result)
            if result.fired or result.refused or result.missed:  # of a place that is refused, nodes may be left over
                RemoveUnusedNodesPass()(model)
                TopologicalSortPass()(model)
            result.modified = result.fired > 0
        return result


def require_no_subgraphs(model: ir.Model) -> None:
    """Refuse a model that a pass would see only a part of.

    Raises:
        ExportError: a node has a subgraph.
    """
    kinds = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)
    for node in model.graph:
        if any(attribute.type in kinds for attribute in node.attributes.values()):
            raise ExportError("a graph without subgraphs", f"one in {node.outputs[0].name} ({node.op_type})", _REPORT)


@dataclass(kw_only=True)
class RewritesResult(PassResult):
    """What each of several passes did to one graph, in order."""

    passes: tuple[RewriteResult, ...]


class Rewrites(Sequential):
    """Passes in order, with what must hold of the graph before and after them."""

    def __init__(self, passes: Sequence[Rewrite], before: Condition, after: Condition) -> None:
        super().__init__(*passes)
        self._before, self._after = before, after

    def requires(self, model: ir.Model) -> None:
        self._before(model)

    def ensures(self, model: ir.Model) -> None:
        self._after(model)

    def call(self, model: ir.Model) -> RewritesResult:
        """Run every pass; one that misses a place is an error."""
        results = []
        for rewrite in self.passes:
            result = rewrite(model)
            assert isinstance(result, RewriteResult)
            result.require_no_misses()
            results.append(result)
        return RewritesResult(model, any(result.modified for result in results), passes=tuple(results))

    def run(self, model: ir.Model) -> tuple[RewriteResult, ...]:
        """Rewrite a model in place.

        Raises:
            ExportError: a pass missed a place, or a condition does not hold.
        """
        try:
            result = self(model)
        except InvariantError as error:
            if isinstance(error.__cause__, AttendantError):
                raise error.__cause__ from None
            raise ExportError("a graph that a pass can rewrite", str(error), _REPORT) from error
        assert isinstance(result, RewritesResult)
        return result.passes
