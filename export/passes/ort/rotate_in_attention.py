"""Let ONNX Runtime's GroupQueryAttention rotate queries and keys itself, from tables of cosines and sines.

    before    Split → 4 Mul, Sub, Add → Concat → Transpose → Reshape, of queries and of keys → GroupQueryAttention
    after     GroupQueryAttention(Q, K, V, …, cosines, sines, do_rotary=1)

The node derives positions from the lengths as the decoder does: the first of a row's new tokens stands at ``start``.
Precondition: :class:`export.passes.ort.lower_cached_attention.LowerCachedAttention` ran before.

Legend: M capacity, D head size.
Source: ONNX Runtime 1.31, docs/ContribOperators.md, com.microsoft.GroupQueryAttention; RoFormer's layout in halves
(:mod:`models.layers.rope`).
"""

import numpy as np
import onnx_ir as ir
from onnx_ir.tape import Tape

from export.graph.rewrite import Rewrite, RewriteResult
from export.passes.match.head_layout import exchanges_heads, flatten_heads, producer
from export.passes.match.rotation import RotaryMatch, factors, rotation_of, uncast

HEAD_SIZE_MULTIPLE = 16  # of the node that rotates; without that it takes multiples of 8


class RotateInAttention(Rewrite):
    """Rewrite every GroupQueryAttention whose queries and keys are rotated just before it."""

    operators = frozenset({"GroupQueryAttention"})

    def rewrite(self, graph: ir.Graph, result: RewriteResult) -> None:
        tables: dict[str, ir.Value] = {}
        for node in [node for node in graph if node.op_type == "GroupQueryAttention"]:
            turned = [_before_heads_join(value) for value in node.inputs[:2]]
            if any(heads is None or _operator(heads) != "Concat" for heads in turned):
                continue  # not rotated at all
            if _head_size(node) % HEAD_SIZE_MULTIPLE:
                result.refused.append(f"{node.outputs[0].name}: head size {_head_size(node)} is not a multiple of 16")
                continue
            rotations = [rotation_of(heads) for heads in turned if heads is not None]
            frequencies = [None if one is None else _frequencies(graph, one) for one in rotations]
            if len({id(value) for value in frequencies}) != 1 or frequencies[0] is None:
                result.refused.append(
                    f"{node.outputs[0].name}: not turned in halves, by positions times constant frequencies"
                )
                continue
            tables = tables or _tables(graph, node, frequencies[0])
            _rotate_inside(graph, node, [one for one in rotations if one is not None], tables)
            result.fired += 1


def _rotate_inside(graph: ir.Graph, node: ir.Node, rotations: list[RotaryMatch], tables: dict[str, ir.Value]) -> None:
    tape = Tape(graph)
    flat = [flatten_heads(tape, one.heads) for one in rotations]
    inputs = [*flat, *node.inputs[2:7], tables["rotary.cos"], tables["rotary.sin"]]
    node.resize_inputs(max(len(inputs), len(node.inputs)))  # those of a cache in integers have its scales as well
    for index, value in enumerate(inputs):
        node.replace_input_with(index, value)
    node.attributes.add(ir.AttrInt64("do_rotary", 1))


def _before_heads_join(value: ir.Value | None) -> ir.Value | None:
    reshape = producer(value, "Reshape")
    transpose = None if reshape is None else producer(reshape.inputs[0], "Transpose")
    return transpose.inputs[0] if transpose is not None and exchanges_heads(transpose) else None


def _frequencies(graph: ir.Graph, rotation: RotaryMatch) -> ir.Value | None:
    cos, sin = producer(uncast(rotation.cosines), "Cos"), producer(uncast(rotation.sines), "Sin")
    if cos is None or sin is None or cos.inputs[0] is not sin.inputs[0]:
        return None
    product = factors(cos.inputs[0])
    if product is None or product[1].name not in graph.initializers or not _is_position(graph, product[0]):
        return None
    return product[1]


def _is_position(graph: ir.Graph, value: ir.Value) -> bool:
    # start[:, None] + arange(T), as a number on axes of its own
    unsqueeze = producer(uncast(value), "Unsqueeze")
    total = None if unsqueeze is None else producer(unsqueeze.inputs[0], "Add")
    if total is None:
        return False
    first, steps = producer(total.inputs[0], "Unsqueeze"), producer(total.inputs[1], "Range")
    start = next(one for one in graph.inputs if one.name == "start")
    return first is not None and first.inputs[0] is start and steps is not None


def _tables(graph: ir.Graph, node: ir.Node, frequencies: ir.Value) -> dict[str, ir.Value]:
    cache = node.inputs[3]
    assert cache is not None and cache.shape is not None and frequencies.const_value is not None
    capacity = cache.shape[2]
    assert isinstance(capacity, int)
    positions_M1 = np.arange(capacity, dtype=np.float32)[:, None]
    angles = positions_M1 * frequencies.const_value.numpy().reshape(1, -1).astype(np.float32)
    dtype = (node.outputs[0].dtype or cache.dtype or ir.DataType.FLOAT).numpy()  # a cache may be of integers
    tables = {"rotary.cos": np.cos(angles), "rotary.sin": np.sin(angles)}
    tape = Tape(graph)
    return {name: tape.initializer(ir.tensor(table.astype(dtype)), name=name) for name, table in tables.items()}


def _head_size(node: ir.Node) -> int:
    cache = node.inputs[3]
    assert cache is not None and cache.shape is not None
    size = cache.shape[3]
    assert isinstance(size, int)
    return size


def _operator(value: ir.Value) -> str:
    producer = value.producer()
    return "" if producer is None else producer.op_type
