"""One session in which every operator can be rounded or not, run by run: what a search among them measures.

    y = f(x, W)   becomes   y = round?(f(round?(x), round?(W))),   round?(x) = Where(gate, round(x), x)

A gate is an element of the graph's input :data:`GATES`. So any choice of operators is measured without a new graph.
Arithmetic is float32; in half precision what a node reads and returns is rounded, in int8 what a product reads.
"""

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import onnx_ir as ir

from export.bounded.process import guarded
from export.mixed_precision.drift import worst_drift
from export.mixed_precision.feeds import Feed
from export.mixed_precision.forms import Reference
from export.mixed_precision.narrow_tensor import narrow_tensor
from export.mixed_precision.operator_types import Slots
from export.mixed_precision.selections import cut_selections
from export.mixed_precision.sessions import Session, session_of
from export.passes.quantise.quantise_static import Rounded, quantised_weight
from serving.runtime.base import Array

GATES = "attendant.gates"
_WIDE = ir.DataType.FLOAT
_LARGEST = 127
_NO_ATTRIBUTES: Mapping[str, int] = {}


class Simulation:
    """A graph with gates.

    Attributes:
        count: of gates.
        runs: how often drift was measured.
    """

    def __init__(self, session: Session, count: int, samples: Sequence[Feed], reference: Reference) -> None:
        """Keep what is measured.

        Args:
            session: of the graph with gates.
            count: how many there are.
            samples: what is fed.
            reference: what is measured, in float32.
        """
        self._session, self.count, self._samples = session, count, reference.feeds(samples)
        self._names, self._reference, self.runs = reference.measured, reference.measured_values(), 0

    def drift(self, rounded: Collection[int]) -> float:
        """The drift of the worst value, where the nodes with these gates are rounded; each run is :func:`guarded`."""
        self.runs += 1
        gates = np.zeros(self.count, np.bool_)
        gates[list(rounded)] = True
        found, expected = [], f"ONNX Runtime to run the graph with {len(rounded)} of {self.count} operators rounded"
        for sample in self._samples:
            with guarded(expected):  # a loop whose condition is rounded may never end
                try:
                    found.append(self._session.run(self._names, {**sample, GATES: gates}))
                except Exception:  # of ONNX Runtime: numbers that became sizes which do not fit each other
                    return float("inf")
        return max(worst_drift(found, self._reference).values(), default=0.0)


def narrow_gates(model: ir.Model, slots: Mapping[ir.Node, Slots], dtype: ir.DataType) -> list[ir.Node]:
    """Put gates on everything that may be narrow, in place; the nodes in the order of their gates."""
    gated = [node for node in model.graph.all_nodes() if node in slots and not slots[node].reason]
    gates = _Gates(model, len(gated))
    for index, node in enumerate(gated):
        for at in slots[node].inputs:
            value = node.inputs[at]
            assert value is not None
            node.replace_input_with(at, gates.choose(index, gates.narrow(value, dtype), value))
        for at in slots[node].outputs:
            _round_output(gates, index, node.outputs[at], dtype)
    return gated


def integer_gates(model: ir.Model, products: Sequence[Rounded], largest: Mapping[str, float]) -> int:
    """Put gates on both factors of each product, in place; how many."""
    gates = _Gates(model, len(products))
    for index, product in enumerate(products):
        scale = largest[str(product.activation.name)] / _LARGEST or 1.0
        product.node.replace_input_with(
            0, gates.choose(index, gates.integers(product.activation, scale), product.activation)
        )
        weight = product.weight
        assert weight.const_value is not None
        for user, at in tuple(weight.uses()):
            rounded = gates.constant(f"{weight.name}.int8", _restored(weight.const_value.numpy(), product.axis))
            user.replace_input_with(at, gates.choose(index, rounded, weight))
    return len(products)


def _restored(weight: Array, axis: int) -> Array:
    integers, scale = quantised_weight(weight, axis)
    along = scale.reshape([-1 if index == axis else 1 for index in range(weight.ndim)])
    restored: Array = integers.astype(np.float32) * along
    return restored


def load_simulation(model: ir.Model, count: int, samples: Sequence[Feed], reference: Reference) -> Simulation:
    """Load a graph with gates.

    Args:
        model: with its gates; changed.
        count: of gates.
        samples: inputs.
        reference: what it computes in float32.

    Raises:
        ArtefactError: ONNX Runtime cannot load it.
    """
    model.graph.sort()
    cut_selections(model, reference.fed)
    with guarded("ONNX Runtime to load the graph with roundings in it"):
        return Simulation(session_of(model, reference.measured), count, samples, reference)


class _Gates:
    def __init__(self, model: ir.Model, count: int) -> None:
        self.graph = model.graph
        self._all = ir.Value(name=GATES, shape=ir.Shape([count]), type=ir.TensorType(ir.DataType.BOOL))
        self.graph.inputs.append(self._all)
        self._gates: dict[int, ir.Value] = {}
        self._rounded: dict[ir.Value, ir.Value] = {}
        self._chosen: dict[tuple[int, ir.Value], ir.Value] = {}
        self._made = 0

    def gate(self, index: int) -> ir.Value:
        if index not in self._gates:
            at = self.constant(f"{GATES}.{index}", np.array(index, np.int64))
            self._gates[index] = self._add("Gather", [self._all, at], self.graph, dtype=ir.DataType.BOOL)
        return self._gates[index]

    def choose(self, index: int, rounded: ir.Value, exact: ir.Value) -> ir.Value:
        if (index, exact) not in self._chosen:
            read = [self.gate(index), rounded, exact]
            self._chosen[index, exact] = self._add("Where", read, exact.graph, like=exact)
        return self._chosen[index, exact]

    def narrow(self, value: ir.Value, dtype: ir.DataType) -> ir.Value:
        if value not in self._rounded:
            if value.is_initializer() and value.const_value is not None:
                tensor = narrow_tensor(value.const_value, dtype, "").numpy().astype(np.float32)
                self._rounded[value] = self.constant(f"{value.name}.rounded.{len(self._rounded)}", tensor)
            else:
                cast = self._add("Cast", [value], value.graph, {"to": dtype.value}, value, dtype)
                self._rounded[value] = self._add("Cast", [cast], value.graph, {"to": _WIDE.value}, value)
        return self._rounded[value]

    def integers(self, value: ir.Value, scale: float) -> ir.Value:
        if value not in self._rounded:
            step = self.constant(f"{value.name}.step", np.array(scale, np.float32))
            zero = self.constant("int8.zero", np.array(0, np.int8))
            levels = self._add("QuantizeLinear", [value, step, zero], value.graph, {}, value, ir.DataType.INT8)
            self._rounded[value] = self._add("DequantizeLinear", [levels, step, zero], value.graph, {}, value)
        return self._rounded[value]

    def constant(self, name: str, array: Array) -> ir.Value:
        if name not in self.graph.initializers:
            tensor = ir.tensor(array, name=name)
            made = ir.Value(
                name=name, shape=ir.Shape(array.shape), type=ir.TensorType(tensor.dtype), const_value=tensor
            )
            self.graph.register_initializer(made)
        return self.graph.initializers[name]

    def _add(
        self,
        operator: str,
        inputs: Sequence[ir.Value],
        graph: object,
        attributes: Mapping[str, int] = _NO_ATTRIBUTES,
        like: ir.Value | None = None,
        dtype: ir.DataType = _WIDE,
    ) -> ir.Value:
        assert isinstance(graph, ir.Graph)
        node = ir.node(operator, inputs, attributes)
        (made,) = node.outputs
        self._made += 1
        made.type, made.name = ir.TensorType(dtype), f"attendant.{operator}.{self._made}"
        made.shape = None if like is None else like.shape
        graph.append(node)
        return made


def _round_output(gates: _Gates, index: int, value: ir.Value, dtype: ir.DataType) -> None:
    readers, returned = tuple(value.uses()), value.is_graph_output()
    rounded = gates.narrow(value, dtype)
    chosen = gates.choose(index, rounded, value)
    for user, at in readers:
        user.replace_input_with(at, chosen)
    if returned:
        graph = value.graph
        assert isinstance(graph, ir.Graph)
        for at, output in enumerate(graph.outputs):
            if output is value:
                graph.outputs[at] = chosen
    value.name, chosen.name = f"{value.name}.exact", value.name
