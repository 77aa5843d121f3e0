"""Store a square matrix a second time, turned, where products read it both ways.

    before    MatMul(x, W),  MatMul(y, Transpose(W)),  Gemm(z, W) with transB,  Einsum(y, W) of "bi,oi->bo"
    after     MatMul(x, W),  MatMul(y, W'),            Gemm(z, W'),             Einsum(y, W') of "bi,io->bo"

W' are the same numbers, turned. OpenVINO 2026.4 multiplies all of them by the matrix that it packed for whichever comes
first, in every type of numbers: it knows packed weights by where their numbers lie and what their sizes are, and with
these both are the same. A copy that is not turned would not do: it takes what is computed alike from equal numbers for
one.
"""

from collections import defaultdict

import numpy as np
import onnx_ir as ir

from export.graph.rewrite import Rewrite, RewriteResult
from export.graph.weights import TRANSPOSED
from export.passes.match.products import add_initializer

_PASSED = frozenset({"Cast", "Identity", "Transpose"})
"""Operators between a matrix and its product behind which OpenVINO still knows where its numbers lie."""
_EXCHANGES = {(): (1, 0), (1,): (0, 2, 1)}
"""What stands in front of a matrix's sizes → the order of axes that turns it."""


class TurnWeights(Rewrite):
    """Rewrite every product with the transpose of a square matrix that another product reads as it is."""

    operators = frozenset({"MatMul", "Gemm", "Einsum"})

    def rewrite(self, graph: ir.Graph, result: RewriteResult) -> None:
        readers: dict[ir.Value, tuple[list[ir.Node], list[ir.Node]]] = defaultdict(lambda: ([], []))
        for product in [node for node in graph if node.op_type in self.operators and len(node.inputs) > 1]:
            weight, exchanges = _trace(product)
            if exchanges is not None:
                readers[weight][_turns(product) ^ exchanges % 2].append(product)
        for weight, (as_it_is, transposed) in readers.items():
            if not as_it_is or not transposed:
                continue
            assert weight.const_value is not None
            numbers = np.ascontiguousarray(weight.const_value.numpy().swapaxes(-1, -2))
            turned = add_initializer(graph, f"{weight.name}{TRANSPOSED}", numbers)
            for product in transposed:
                product.replace_input_with(1, _repeat(graph, _read(product, 1), turned))
                _read_as_it_is(product)
            result.fired += len(transposed)


def _trace(product: ir.Node) -> tuple[ir.Value, int | None]:
    """What a product's second input is made of, and how often it is turned; None where that is no square matrix."""
    value, orders = _read(product, 1), []
    while (node := value.producer()) is not None and node.op_type in _PASSED:
        if node.op_type == "Transpose":
            orders.append(tuple(node.attributes.get_ints("perm", (1, 0))))
        value = _read(node, 0)
    shape = () if value.const_value is None or not value.is_initializer() else tuple(value.const_value.shape.numpy())
    square = len(shape) > 1 and shape[-1] == shape[-2] and set(orders) <= {_EXCHANGES.get(shape[:-2])}
    return value, len(orders) if square else None


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


def _repeat(graph: ir.Graph, value: ir.Value, turned: ir.Value) -> ir.Value:
    """What made a value of a matrix, once more, of the matrix turned and without a Transpose."""
    node = value.producer()
    if node is None:
        return turned
    source = _repeat(graph, _read(node, 0), turned)
    if node.op_type == "Transpose":
        return source
    again = ir.node(node.op_type, [source], node.attributes)
    again.outputs[0].type, again.outputs[0].shape = value.type, source.shape
    graph.insert_before(node, again)
    return again.outputs[0]
