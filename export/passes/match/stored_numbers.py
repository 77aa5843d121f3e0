"""Values of a graph that depend on nothing but stored numbers: which are computed alike, and what they hold."""

from collections.abc import Hashable
from typing import Any, cast

import numpy.typing as npt
import onnx
import onnx_ir as ir
from onnx.reference import ReferenceEvaluator

_PASSED = frozenset({"Cast", "Identity", "Transpose", "Reshape", "Squeeze", "Unsqueeze"})
"""Operators behind which OpenVINO still knows where numbers lie."""
_COMPUTED = _PASSED | {"Split", "Slice"}
"""Operators that make matrices of stored numbers, none larger than those."""


class StoredNumbers:
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

    def matrix(self, value: ir.Value) -> tuple[ir.Value, int | None]:
        """What a value is made of, and how often that is turned; None where it is no square matrix of these numbers."""
        exchanges = 0
        while (node := value.producer()) is not None and node.op_type in _PASSED:
            source = read(node, 0)
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

    def kernel(self, value: ir.Value) -> tuple[int, tuple[int, ...]] | None:
        """What a convolution's weight is made of, and in which order of its axes; None where it is no such value."""
        if value not in self.origins:
            return None
        order = tuple(range(len(self._sizes(value))))
        while (node := value.producer()) is not None and node.op_type in {"Cast", "Identity", "Transpose"}:
            if node.op_type == "Transpose":
                turned = node.attributes.get_ints("perm", order[::-1])
                order = tuple(turned[axis] for axis in order)
            value = read(node, 0)
        return self.origins[value], order

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
            return tuple(value.const_value.shape.numpy())
        known = value.shape is not None and value.shape.is_static()
        return tuple(value.shape.numpy()) if value.shape is not None and known else self.numbers(value).shape


def _initializers(graph: ir.Graph) -> list[ir.Value]:
    constants = [node.outputs[0] for node in graph if node.op_type == "Constant"]
    return [one for one in (*graph.initializers.values(), *constants) if one.const_value is not None]


def _proto(node: ir.Node) -> onnx.NodeProto:
    proto = ir.to_proto(node)
    assert isinstance(proto, onnx.NodeProto)
    return proto


def read(node: ir.Node, index: int) -> ir.Value:
    """An input that the node has."""
    value = node.inputs[index]
    assert value is not None
    return value
