"""Store a square matrix a second time, turned, where products read it both ways.

    before    MatMul(x, W),  MatMul(y, Transpose(W)),  Gemm(z, W) with transB,  Einsum(y, W) of "bi,oi->bo"
    after     MatMul(x, W),  MatMul(y, W'),            Gemm(z, W'),             Einsum(y, W') of "bi,io->bo"

W' are the same numbers, turned. OpenVINO 2026.4 multiplies all of them by the matrix that it packed for whichever comes
first, in every type of numbers: it knows packed weights by where their numbers lie and what their sizes are, and with
these both are the same. A copy that is not turned would not do: it takes what is computed alike from equal numbers for
one. A matrix may be made of stored numbers alone: a part of a larger one, say. It is computed then, and stored turned.
"""

from collections import defaultdict

import numpy as np
import onnx_ir as ir

from export.graph.rewrite import Rewrite, RewriteResult
from export.graph.weights import TRANSPOSED
from export.passes.match.products import add_initializer
from export.passes.match.stored_numbers import StoredNumbers, read


class TurnWeights(Rewrite):
    """Rewrite every product with the transpose of a square matrix that another product reads as it is."""

    operators = frozenset({"MatMul", "Gemm", "Einsum"})

    def rewrite(self, graph: ir.Graph, result: RewriteResult) -> None:
        stored = StoredNumbers(graph)
        readers: dict[int, tuple[list[ir.Node], list[ir.Node]]] = defaultdict(lambda: ([], []))
        weights: dict[int, ir.Value] = {}
        for product in [node for node in graph if node.op_type in self.operators and len(node.inputs) > 1]:
            weight, exchanges = stored.matrix(read(product, 1))
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
                value = read(product, 1)
                product.replace_input_with(1, _repeat(graph, value, stored.matrix(value)[0], turned))
                _read_as_it_is(product)
            result.fired += len(transposed)


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


def _repeat(graph: ir.Graph, value: ir.Value, weight: ir.Value, turned: ir.Value) -> ir.Value:
    """What made a value of a matrix, once more, of the matrix turned and without a Transpose."""
    if value is weight:
        return turned
    node = value.producer()
    assert node is not None
    source = _repeat(graph, read(node, 0), weight, turned)
    if node.op_type == "Transpose":
        return source
    again = ir.node(node.op_type, [source, *node.inputs[1:]], node.attributes)
    again.outputs[0].type, again.outputs[0].shape = value.type, value.shape
    graph.insert_before(node, again)
    return again.outputs[0]
