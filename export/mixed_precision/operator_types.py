"""Which inputs and outputs of a node may be of a narrower floating type, by the operator's own definition.

An operator states a set of types for each of its type variables (``T``), or one type for an input (``scales`` of Resize
is float32 always). A variable that is float32 in a node becomes narrow wherever its set allows.

Source: ONNX operator schemas (``onnx.defs``), of the version that the graph imports.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import onnx
import onnx_ir as ir

from export.mixed_precision.source import opset_of
from export.targets.targets import RuntimeTarget

MOVING = frozenset(
    {
        *("Concat", "DepthToSpace", "Expand", "Flatten", "Gather", "GatherElements", "GatherND", "Identity", "Pad"),
        *("Reshape", "Slice", "SpaceToDepth", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze", "Where"),
    }
)
"""Operators that move numbers, and change none."""
_WIDE = ir.DataType.FLOAT
_STANDARD = frozenset({"", "ai.onnx"})
_QUANTIZERS = frozenset({"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"})
_STATED = ("dtype", "output_datatype", "output_dtype")
_FLOAT_WITHIN = frozenset({"BitCast", "MeanVarianceNormalization"})
"""Operators whose definition holds float32 whatever its type variables say."""
_INTEGERS = frozenset({ir.DataType.INT64, ir.DataType.INT32, ir.DataType.INT16, ir.DataType.INT8, ir.DataType.UINT8})


@dataclass(frozen=True, slots=True)
class Slots:
    """What of a node may be narrow.

    Attributes:
        inputs: their indices.
        outputs: likewise.
        reason: why nothing may, where that is so though the node has float32 numbers; empty otherwise.
    """

    inputs: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()
    reason: str = ""


def slots_of_nodes(model: ir.Model, dtype: ir.DataType, target: RuntimeTarget | None) -> dict[ir.Node, Slots]:
    """For each node with float32 numbers, subgraphs included, what of it may be narrow; those that may not, with why.

    Args:
        model: every value of which has a type.
        dtype: FLOAT16 or BFLOAT16.
        target: the runtime whose own tables are kept to, if any.
    """
    opset = opset_of(model)
    indices = set(_index_arithmetic(model))
    found = {}
    for node in model.graph.all_nodes():
        if (
            has_subgraph(node)
            or node.op_type == "Constant"
            or not any(is_wide(value) for value in (*node.inputs, *node.outputs))
        ):
            continue
        slots = Slots(reason="computes sizes or indices") if node in indices else _slots(node, dtype, opset)
        if not slots.reason and target is not None and (refusal := _refusal(node, dtype, target)):
            slots = Slots(reason=refusal)
        found[node] = slots
    return found


def has_subgraph(node: ir.Node) -> bool:
    """Whether a node is If, Loop, Scan or the like."""
    kinds = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)
    return any(attribute.type in kinds for attribute in node.attributes.values())


def is_wide(value: ir.Value | None) -> bool:
    """Whether a value is a tensor of float32."""
    return value is not None and isinstance(value.type, ir.TensorType) and value.dtype == _WIDE


def _slots(node: ir.Node, dtype: ir.DataType, opset: int) -> Slots:
    if node.domain not in _STANDARD:
        return Slots(reason=f"the types of {node.domain}.{node.op_type} are not known")
    if node.op_type in _QUANTIZERS:
        return Slots(reason="quantised already")
    try:
        schema = onnx.defs.get_schema(node.op_type, opset, "")
    except onnx.defs.SchemaError:
        return Slots(reason=f"opset {opset} has no {node.op_type}")
    if node.op_type in _FLOAT_WITHIN or any(name in schema.attributes for name in _STATED):
        return Slots(reason=f"{node.op_type} states its type")
    if any(value is not None and not isinstance(value.type, ir.TensorType) for value in (*node.inputs, *node.outputs)):
        return Slots(reason="a sequence or an optional value")
    inputs = tuple(_narrowable(schema, schema.inputs, node.inputs, dtype))
    outputs = tuple(_narrowable(schema, schema.outputs, node.outputs, dtype))
    if not inputs and not outputs:
        return Slots(reason=f"{node.op_type} of opset {opset} takes no {dtype.name.lower()}")
    return Slots(inputs, outputs)


def _narrowable(
    schema: onnx.defs.OpSchema,
    formal: Iterable[onnx.defs.OpSchema.FormalParameter],
    values: Iterable[ir.Value | None],
    dtype: ir.DataType,
) -> Iterator[int]:
    sets = {one.type_param_str: one.allowed_type_strs for one in schema.type_constraints}
    parameters = list(formal)
    for index, value in enumerate(values):
        parameter = parameters[min(index, len(parameters) - 1)]
        if is_wide(value) and f"tensor({dtype.name.lower()})" in sets.get(parameter.type_str, (parameter.type_str,)):
            yield index


def _refusal(node: ir.Node, dtype: ir.DataType, target: RuntimeTarget) -> str:
    word = dtype.name.lower()
    known = target.operators.get(node.op_type)
    if node.op_type in target.missing_types.get(word, ()) or (known is not None and word not in known):
        return f"{target.runtime} has no {node.op_type} of {word}"
    return ""


def _index_arithmetic(model: ir.Model) -> Iterator[ir.Node]:
    # Backwards from casts to integers and factors of Resize, as long as nothing else reads: exporters' float32 sizes.
    found: set[ir.Node] = set()
    for node in reversed(list(model.graph.all_nodes())):
        made = [value for value in node.outputs if is_wide(value)]
        readers = [use for value in made for use in value.uses()]
        if (
            has_subgraph(node)
            or node.op_type == "Constant"
            or not readers
            or any(value.is_graph_output() for value in made)
        ):
            continue
        if all(user in found or _takes_sizes(user, at) for user, at in readers):
            found.add(node)
            yield node


def _takes_sizes(node: ir.Node, at: int) -> bool:
    if node.op_type in ("Resize", "Upsample"):
        return at > 0
    return node.op_type == "Cast" and ir.DataType(node.attributes.get_int("to", 0)) in _INTEGERS
