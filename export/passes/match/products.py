"""Products of an activation with a constant matrix, however a graph spells them, and what may stand in their place.

MatMul(x, W)        W [in, out]
MatMul(x, Wᵀ)       W [out, in], where a table of embeddings is also the last layer's weight
Gemm(x, W, b)       W [in, out], or [out, in] with transB; then b is added to what takes its place
"""

from dataclasses import dataclass
from itertools import chain, count

import numpy as np
import numpy.typing as npt
import onnx_ir as ir
from onnx_ir.tape import Tape

Array = npt.NDArray[np.generic]
PARTS = (".shift", ".sums")
"""How weights end that are one part of a product in fewer bits, and no product to rewrite."""
_EXCHANGED = [1, 0]
_OTHERS = {
    "Conv": "a convolution: only products of matrices have fewer bits",
    "RNN": "a recurrent layer: the standard has it in floating point only",
    "LSTM": "a recurrent layer: the standard has it in floating point only",
    "GRU": "a recurrent layer: the standard has it in floating point only",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """One product.

    Attributes:
        node: what computes it.
        activation: [..., in].
        weight: the initializer.
        transposed: whether the weight is stored [out, in].
        bias: what a Gemm adds.
    """

    node: ir.Node
    activation: ir.Value
    weight: ir.Value
    transposed: bool
    bias: ir.Value | None = None

    @property
    def name(self) -> str:
        return str(self.node.outputs[0].name)

    @property
    def sizes(self) -> tuple[int, int]:
        """How many numbers go in and how many come out."""
        rows, columns = _shape(self.weight)
        return (columns, rows) if self.transposed else (rows, columns)

    @property
    def is_last(self) -> bool:
        """Whether it is an output of the graph, with or without a bias."""
        made = self.node.outputs[0]
        biased = [user.outputs[0] for user in made.consumers() if user.op_type == "Add"]
        return any(value.is_graph_output() for value in (made, *biased))

    def matrix(self) -> npt.NDArray[np.float32]:
        """The weight, [in, out]."""
        assert self.weight.const_value is not None
        stored = self.weight.const_value.numpy()
        return stored.T if self.transposed else stored


def products_of(graph: ir.Graph) -> list[Product]:
    """Every product of a float32 activation with a constant matrix, in the graph's order."""
    found = [_matmul(node) if node.op_type == "MatMul" else _gemm(node) for node in graph]
    return [product for product in found if product is not None]


def beyond_products(graph: ir.Graph) -> list[str]:
    """Other nodes with weights, and why they are left alone."""
    others = [node for node in graph if node.op_type in _OTHERS]
    return [f"{_weights_of(node)}: {_OTHERS[node.op_type]}" for node in others]


def replace_product(tape: Tape, product: Product, computed: ir.Value) -> None:
    """Let another value, with a Gemm's bias, take the place of a product."""
    new = computed if product.bias is None else tape.op("Add", [computed, product.bias])
    replace_value(product.node.outputs[0], new)


def replace_value(old: ir.Value, new: ir.Value) -> None:
    """Let one value be read instead of another, under its name."""
    new.shape, new.type, name = old.shape, old.type, old.name
    ir.convenience.replace_all_uses_with(old, new, replace_graph_outputs=True)
    old.name, new.name = None, name


def add_initializer(graph: ir.Graph, name: str, tensor: ir.TensorProtocol | Array) -> ir.Value:
    """An initializer of those numbers, made where there is none.

    Where others have its name, it gets a number in it: a matrix that is multiplied as it is, and turned elsewhere, has
    levels and scales for its columns and for its rows.
    """
    const, (stem, dot, part) = ir.tensor(tensor, name=name), name.rpartition(".")
    names = chain([name], (f"{stem}{dot}{number}.{part}" for number in count(2)))
    free = next(one for one in names if one not in graph.initializers or _holds(graph.initializers[one], const))
    if free not in graph.initializers:
        shape, dtype = ir.Shape(const.shape.numpy()), ir.TensorType(const.dtype)
        graph.initializers.add(ir.Value(name=free, shape=shape, type=dtype, const_value=const))
    return graph.initializers[free]


def _holds(value: ir.Value, const: ir.TensorProtocol) -> bool:
    held = value.const_value
    return (
        held is not None
        and (held.dtype, held.shape) == (const.dtype, const.shape)
        and held.tobytes() == const.tobytes()
    )


def _weights_of(node: ir.Node) -> str:
    return next(str(value.name) for value in node.inputs[1:] if value is not None and value.name)


def _matmul(node: ir.Node) -> Product | None:
    activation, read = node.inputs
    assert activation is not None and read is not None
    producer = read.producer()
    if _is_matrix(read):
        return Product(node=node, activation=activation, weight=read, transposed=False)
    if producer is not None and producer.op_type == "Transpose" and _is_matrix(producer.inputs[0]):
        assert producer.inputs[0] is not None
        return Product(node=node, activation=activation, weight=producer.inputs[0], transposed=True)
    return None


def _gemm(node: ir.Node) -> Product | None:
    if node.op_type != "Gemm" or not _is_matrix(node.inputs[1]) or not _is_plain(node):
        return None
    activation, weight, *bias = node.inputs
    assert activation is not None and weight is not None
    turned = bool(node.attributes.get_int("transB", 0))
    return Product(node=node, activation=activation, weight=weight, transposed=turned, bias=bias[0] if bias else None)


def _is_plain(node: ir.Node) -> bool:
    factors = [node.attributes.get_float(name, 1.0) for name in ("alpha", "beta")]
    return factors == [1.0, 1.0] and not node.attributes.get_int("transA", 0)


def _is_matrix(value: ir.Value | None) -> bool:
    if value is None or not value.is_initializer() or str(value.name).endswith(PARTS):
        return False
    return value.dtype == ir.DataType.FLOAT and len(_shape(value)) == 2


def _shape(value: ir.Value) -> tuple[int, ...]:
    assert value.const_value is not None
    return tuple(value.const_value.shape.numpy())
