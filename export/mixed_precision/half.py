"""A float32 graph in fp16 or bf16, but for what measurably needs more."""

from collections import Counter
from collections.abc import Sequence

import onnx_ir as ir

from attendant.errors import ExportError
from export.mixed_precision.assign_types import apply_types, assign, lost_constant
from export.mixed_precision.feeds import Feeds
from export.mixed_precision.forms import Reference
from export.mixed_precision.operator_types import slots_of_nodes
from export.mixed_precision.outcome import KeptNode, Typed
from export.mixed_precision.ranges import largest_values
from export.mixed_precision.search import Found, Kind, search
from export.mixed_precision.simulation import load_simulation, narrow_gates
from export.mixed_precision.source import label_of
from export.targets.targets import RuntimeTarget

_LOWEST = 1e30
"""From where on numbers are a mask's: −3.4 · 10³⁸, and what is added to it."""
DTYPES = {"fp16": ir.DataType.FLOAT16, "bf16": ir.DataType.BFLOAT16}


def to_half(
    model: ir.Model,
    dtype: ir.DataType,
    feeds: Feeds,
    reference: Reference,
    budget: float | None,
    target: RuntimeTarget | None = None,
    narrow_io: bool = False,
) -> Typed:
    """Change a graph.

    Args:
        model: changed in place.
        dtype: FLOAT16 or BFLOAT16.
        feeds: what it is measured with.
        reference: what it computes in float32.
        budget: the largest drift; without one nothing is measured, and all that can be becomes narrow.
        target: the runtime whose tables are kept to.
        narrow_io: whether its float32 inputs and outputs become narrow too.

    Raises:
        ExportError: nothing of it can be narrow.
    """
    slots = slots_of_nodes(model, dtype, target)
    gated = [node for node in slots if not slots[node].reason]
    found, sensitive = Found(kept={}, drift=0.0, drift_of_all=0.0, runs=0), dict[ir.Node, str]()
    if budget is not None and gated:
        copy = model.clone()
        nodes = narrow_gates(copy, slots_of_nodes(copy, dtype, target), dtype)
        simulation = load_simulation(copy, len(nodes), feeds.samples, reference)
        fixed = [at for at, node in enumerate(gated) if lost_constant(node, dtype)]
        kinds = _Kinds(model, dtype, gated, feeds)
        found = search(simulation, kinds, fixed, budget)
        sensitive = {gated[gate]: f"{found.reason(gate)}{kinds.range_of(gate)}" for gate in found.kept}
    assignment = assign(model, dtype, slots, sensitive)
    if not assignment.narrow:
        why = "; ".join(sorted(set(assignment.kept.values()))) or "it has no float32 operators"
        raise ExportError(f"operators that can be {dtype.name.lower()}", f"none: {why}", "choose another precision")
    kept = [
        KeptNode(name=label_of(node), operator=node.op_type, reason=reason, measured=node in sensitive)
        for node, reason in assignment.kept.items()
    ]
    operators = Counter(node.op_type for node in assignment.narrow)
    apply_types(model, dtype, slots, assignment.narrow, narrow_io)
    return Typed(operators=dict(operators.most_common()), kept=tuple(kept), found=found)


class _Kinds:
    """The kinds of operators, by the range of what they return in float32."""

    def __init__(self, model: ir.Model, dtype: ir.DataType, nodes: Sequence[ir.Node], feeds: Feeds) -> None:
        self._model, self._most, self._nodes, self._feeds = model, float(dtype.max), nodes, feeds
        self._largest: dict[str, float] = {}

    def __call__(self) -> list[Kind]:
        names = [str(value.name) for node in self._nodes if node.graph is self._model.graph for value in node.outputs]
        self._largest = largest_values(self._model, names, self._feeds.samples, "the graph")
        return [Kind(node.op_type, self._beyond(node) > 0) for node in self._nodes]

    def range_of(self, gate: int) -> str:
        """What a reason ends with, of an operator whose numbers are too large."""
        beyond = self._beyond(self._nodes[gate])
        return f"; it reaches {beyond:.2g}, beyond {self._most:g}" if beyond else ""

    def _beyond(self, node: ir.Node) -> float:
        largest = max((self._largest.get(str(value.name), 0.0) for value in node.outputs), default=0.0)
        return largest if self._most < largest < _LOWEST else 0.0  # what a mask adds is bounded, and overflows nothing
