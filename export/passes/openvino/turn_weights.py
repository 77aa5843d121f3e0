"""Store a square matrix a second time, turned, where products read it both ways.

    before    MatMul(x, W),  MatMul(y, Transpose(W)),  Gemm(z, W) with transB,  Einsum(y, W) of "bi,oi->bo"
    after     MatMul(x, W),  MatMul(y, W'),            Gemm(z, W'),             Einsum(y, W') of "bi,io->bo"

W' are the same numbers, turned. OpenVINO 2026.4 multiplies all of them by the matrix that it packed for whichever comes
first, in every type of numbers: it knows packed weights by where their numbers lie and what their sizes are, and with
these both are the same. A copy that is not turned would not do: it takes what is computed alike from equal numbers for
one. A matrix may be made of stored numbers alone: a part of a larger one, say. It is computed then, and stored turned.
"""

from collections import defaultdict
from collections.abc import Hashable
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir
from onnx.reference import ReferenceEvaluator

from export.graph.rewrite import Rewrite, RewriteResult
from export.graph.weights import TRANSPOSED
from export.passes.match.products import add_initializer

_PASSED = frozenset({"Cast", "Identity", "Transpose", "Reshape", "Squeeze", "Unsqueeze"})
"""Operators between a matrix and its product behind which OpenVINO still knows where its numbers lie."""
_COMPUTED = _PASSED | {"Split", "Slice"}
"""Operators that make matrices of stored numbers, none larger than those."""


class TurnWeights(Rewrite):
    """Rewrite every product with the transpose of a square matrix that another product reads as it is."""

    operators = frozenset({"MatMul", "Gemm", "Einsum"})

    def rewrite(self, graph: ir.Graph, result: RewriteResult) -> None:
        stored = _StoredNumbers(graph)
        readers: dict[int, tuple[list[ir.Node], list[ir.Node]]] = defaultdict(lambda: ([], []))
        weights: dict[int, ir.Value] = {}
        for product in [node for node in graph if node.op_type in self.operators and len(node.inputs) > 1]:
            weight, exchanges = stored.trace(_read(product, 1))
            if exchanges is not None:
                origin = stored.origins[weight]
                readers[origin][_turns(product) ^ exchanges % 2].append(product)
                weights[origin] = weight
        for origin, (as_it_is, transposed) in readers.items():
            if not as_it_is or not transposed:
                continue
            weight = weights[origin]
            numbers = np.ascontiguousarray(stored.numbers(weight).swapaxes(-1, -2))
            turned = add_initializer(graph, f"{weight.name}{TRANSPOSED}", numbers)
            for product in transposed:
                value = _read(product, 1)
                product.replace_input_with(1, _repeat(graph, value, stored.trace(value)[0], turned))
                _read_as_it_is(product)
            result.fired += len(transposed)


class _StoredNumbers:
    """Values of a graph that depend on nothing but stored numbers.

    Attributes:
        origins: each of them → a number, the same for those that are computed alike.
    """

    def __init__(self, graph: ir.Graph) -> None:
        known: dict[Hashable, int] = {}
        self.origins: dict[ir.Value, int] = {one: known.setdefault(one, len(known)) for one in _initializers(graph)}
        self._computed: dict[ir.Value, npt.NDArray[Any]] = {}
        for node in graph:
            given = [one for one in node.inputs if one is not None]
            if node.domain or node.op_type not in _COMPUTED or not given:
                continue
            if all(one in self.origins for one in given):
                proto, origins = _proto(node), tuple(-1 if one is None else self.origins[one] for one in node.inputs)
                attributes = tuple(sorted(one.SerializeToString(deterministic=True) for one in proto.attribute))
                for at, output in enumerate(node.outputs):
                    key = node.op_type, attributes, at, origins
                    self.origins[output] = known.setdefault(key, len(known))

    def trace(self, value: ir.Value) -> tuple[ir.Value, int | None]:
        """What a value is made of, and how often that is turned; None where it is no square matrix of these numbers."""
        exchanges = 0
        while (node := value.producer()) is not None and node.op_type in _PASSED:
            source = _read(node, 0)
            if not self._is_square(source):
                break
            if node.op_type == "Transpose":
                axes = tuple(range(len(self._sizes(source))))
                order = tuple(node.attributes.get_ints("perm", axes[::-1]))
                if order not in (axes, (*axes[:-2], axes[-1], axes[-2])):
                    break
                exchanges += order != axes
            value = source
        return value, exchanges if self._is_square(value) else None

    def numbers(self, value: ir.Value) -> npt.NDArray[Any]:
        """What one of them holds."""
        if value.const_value is not None:
            return value.const_value.numpy()
        if value not in self._computed:
            node = value.producer()
            assert node is not None
            given = {str(one.name): self.numbers(one) for one in node.inputs if one is not None}
            answers = cast(list[npt.NDArray[Any]], ReferenceEvaluator(_proto(node)).run(None, given))
            self._computed |= dict(zip(node.outputs, answers, strict=True))
        return self._computed[value]

    def _is_square(self, value: ir.Value) -> bool:
        """Whether it is a square matrix, with ones alone in front of its sizes."""
        sizes = self._sizes(value)
        return len(sizes) > 1 and sizes[-1] == sizes[-2] and set(sizes[:-2]) <= {1}

    def _sizes(self, value: ir.Value) -> tuple[int, ...]:
        if value not in self.origins:
            return ()
        if value.const_value is not None:
            return tuple(value.const_value.numpy().shape)
        known = value.shape is not None and value.shape.is_static()
        return tuple(value.shape.numpy()) if value.shape is not None and known else self.numbers(value).shape


def _initializers(graph: ir.Graph) -> list[ir.Value]:
    constants = [node.outputs[0] for node in graph if node.op_type == "Constant"]
    return [one for one in (*graph.initializers.values(), *constants) if one.const_value is not None]


def _proto(node: ir.Node) -> onnx.NodeProto:
    proto = ir.to_proto(node)
    assert isinstance(proto, onnx.NodeProto)
    return proto


def _turns(product: ir.Node) -> bool:
    if product.op_type == "Einsum":
        activation, weight, *_ = _terms(product)
        return weight[-2:].isalpha() and weight[-1] in activation
    return bool(product.attributes.get_int("transB", 0))


def _read_as_it_is(product: ir.Node) -> None:
    if product.op_type == "Gemm":
        product.attributes["transB"] = ir.AttrInt64("transB", 0)
    if product.op_type == "Einsum" and _turns(product):
        terms, (_, arrow, answer) = _terms(product), _equation(product).partition("->")
        terms[1] = f"{terms[1][:-2]}{terms[1][-1]}{terms[1][-2]}"
        product.attributes["equation"] = ir.AttrString("equation", f"{','.join(terms)}{arrow}{answer}")


def _equation(product: ir.Node) -> str:
    return product.attributes.get_string("equation", "").replace(" ", "")


def _terms(product: ir.Node) -> list[str]:
    return _equation(product).partition("->")[0].split(",")


def _read(node: ir.Node, index: int) -> ir.Value:
    value = node.inputs[index]
    assert value is not None
    return value


def _repeat(graph: ir.Graph, value: ir.Value, weight: ir.Value, turned: ir.Value) -> ir.Value:
    """What made a value of a matrix, once more, of the matrix turned and without a Transpose."""
    if value is weight:
        return turned
    node = value.producer()
    assert node is not None
    source = _repeat(graph, _read(node, 0), weight, turned)
    if node.op_type == "Transpose":
        return source
    again = ir.node(node.op_type, [source, *node.inputs[1:]], node.attributes)
    again.outputs[0].type, again.outputs[0].shape = value.type, value.shape
    graph.insert_before(node, again)
    return again.outputs[0]
