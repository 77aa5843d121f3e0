"""One product for all that read the same activation: queries, keys and values; a gate and what it gates.

    before    MatMul(x, A) + a,  MatMul(x, B) + b, …
    after     Split(MatMul(x, [A B …]) + [a b …])

The order is that in which an Attention takes the parts, so that ONNX Runtime's own can read them unsplit
(:mod:`export.passes.ort.feed_attention_packed`); otherwise it is the graph's. The packed weight is named after its
parts, with a ``|`` between them.

Legend: x is [..., in]; A, B [in, out] and a, b [out] with outs of their own.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir
from onnx_ir.tape import Tape

from export.graph.rewrite import Rewrite, RewriteResult
from export.passes.match.products import replace_value

BETWEEN = "|"
_NO_ATTENTION = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class _Product:
    activation: ir.Value
    weight: ir.Value
    bias: ir.Value | None
    result: ir.Value

    @property
    def columns(self) -> int:
        columns = None if self.weight.shape is None else self.weight.shape[1]
        assert isinstance(columns, int)
        return columns


@dataclass(frozen=True)
class PackProducts(Rewrite):
    """Pack every group of at least two products of one activation with weights of their own.

    Attributes:
        kinds: the name of a weight → what must be equal for those that are packed; nothing if not given.
    """

    kinds: Mapping[str, object] = field(default_factory=dict)

    def rewrite(self, graph: ir.Graph, result: RewriteResult) -> None:
        groups = dict[tuple[ir.Value, bool, object], list[_Product]]()
        for product in filter(None, map(_product, graph)):
            kind = self.kinds.get(str(product.weight.name))
            groups.setdefault((product.activation, product.bias is None, kind), []).append(product)
        packed = [sorted(group, key=_attention_input) for group in groups.values() if len(group) > 1]
        for group in packed:
            _pack(graph, group)
        result.fired = len(packed)


def _product(node: ir.Node) -> _Product | None:
    if node.op_type != "MatMul" or not _is_weight(node.inputs[1], 2):
        return None
    activation, weight = node.inputs
    assert activation is not None and weight is not None
    users = list(node.outputs[0].consumers())
    biased = len(users) == 1 and users[0].op_type == "Add" and not node.outputs[0].is_graph_output()
    biases = [value for value in users[0].inputs if _is_weight(value, 1)] if biased else []
    if len(biases) != 1:
        return _Product(activation=activation, weight=weight, bias=None, result=node.outputs[0])
    return _Product(activation=activation, weight=weight, bias=biases[0], result=users[0].outputs[0])


def _is_weight(value: ir.Value | None, dimensions: int) -> bool:
    if value is None or not value.is_initializer() or value.shape is None:
        return False
    return len(value.shape) == dimensions and len(value.uses()) == 1


def _attention_input(product: _Product) -> int:
    # Which input of an Attention the product becomes, on whatever way.
    values, seen = [product.result], set[ir.Value]()
    while values:
        value = values.pop()
        for node, index in value.uses():
            if node.op_type == "Attention":
                return index
            if node.op_type not in ("MatMul", "Add") or value is product.result:
                values += [one for one in node.outputs if one not in seen]
                seen.update(node.outputs)
    return _NO_ATTENTION


def _pack(graph: ir.Graph, group: list[_Product]) -> None:
    tape = Tape(graph)
    packed = tape.op("MatMul", [group[0].activation, _join_weights(graph, [one.weight for one in group], axis=1)])
    if group[0].bias is not None:
        packed = tape.op(
            "Add", [packed, _join_weights(graph, [one.bias for one in group if one.bias is not None], axis=0)]
        )
    sizes = tape.op("Constant", [], {"value_ints": [one.columns for one in group]})
    parts = tape.op_multi_out("Split", [packed, sizes], {"axis": -1}, num_outputs=len(group))
    for product, part in zip(group, parts, strict=True):
        replace_value(product.result, part)


def _join_weights(graph: ir.Graph, values: list[ir.Value], axis: int) -> ir.Value:
    tensors = [value.const_value for value in values]
    names = [str(value.name) for value in values]
    arrays = [tensor.numpy() for tensor in tensors if tensor is not None]
    tensor = ir.tensor(np.concatenate(arrays, axis=axis), name=BETWEEN.join(names))
    joined = ir.Value(
        name=tensor.name, shape=ir.Shape(tensor.shape.numpy()), type=ir.TensorType(tensor.dtype), const_value=tensor
    )
    graph.initializers.add(joined)
    for name in names:
        graph.initializers.pop(name, None)
    return joined
