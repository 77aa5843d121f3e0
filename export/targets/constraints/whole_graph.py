"""Constraints on a graph as a whole: versions, domains, operators, element types, quantization."""

from collections.abc import Iterator

import numpy as np
import onnx

from export.targets.constraints.constraint import Violation
from export.targets.constraints.forms import of_graph
from export.targets.constraints.graph import QUANTIZERS, Graph, Node
from export.targets.constraints.sources import STRONG, TABLE
from export.targets.targets import STANDARD_DOMAINS, RuntimeTarget

# Which input has the type that a runtime's table means, where it is not the first; the others count by their output.
_DATA_INPUT = {"Where": 1}
_BY_OUTPUT = frozenset({"Constant", "ConstantOfShape"})
_BY_BOTH = frozenset({"Cast", "CastLike"})
_NARROW = frozenset({"int8", "uint8", "int4", "uint4", "int2", "uint2", "float4e2m1", "float8e4m3fn", "float8e5m2"})
_RECORD = "the target's record (export/targets/targets.py)"


@of_graph("opset", "the standard's version is one that it reads", _RECORD)
def opset(graph: Graph, target: RuntimeTarget) -> Iterator[Violation]:
    oldest, newest = target.opsets
    for domain, version in graph.opsets.items():
        if domain in STANDARD_DOMAINS and not oldest <= version <= newest:
            yield Violation(node="opset_import", found=f"opset {version}; the target reads {oldest} to {newest}")


@of_graph("ir-version", "the file format is not newer than it reads", _RECORD)
def ir_version(graph: Graph, target: RuntimeTarget) -> Iterator[Violation]:
    if target.newest_ir_version is not None and graph.ir_version > target.newest_ir_version:
        found = f"IR version {graph.ir_version}; the target reads up to {target.newest_ir_version}"
        yield Violation(node="ir_version", found=found)


@of_graph("domain", "operators of known domains only", _RECORD)
def domain(graph: Graph, target: RuntimeTarget) -> Iterator[Violation]:
    for node in graph.nodes:
        if node.proto.domain not in target.domains:
            yield Violation(node=node.label, found=f"domain {node.proto.domain!r}")


@of_graph("operator", "operators that it reads only", _RECORD)
def operator(graph: Graph, target: RuntimeTarget) -> Iterator[Violation]:
    for node in graph.nodes:
        unlisted = target.operators and node.operator not in target.operators
        if node.proto.domain in STANDARD_DOMAINS and (unlisted or node.operator in target.missing_operators):
            yield Violation(node=node.label, found=f"{node.operator} is not among the operators that it reads")


@of_graph("element-type", "each operator with element types that it has for it", _RECORD)
def element_type(graph: Graph, target: RuntimeTarget) -> Iterator[Violation]:
    for node in graph.nodes:
        if node.proto.domain not in STANDARD_DOMAINS:
            continue
        allowed = target.operators.get(node.operator)
        first = node.input(_DATA_INPUT.get(node.operator, 0))
        tensors = {node.output(0)} if node.operator in _BY_OUTPUT or not first else {first}
        if node.operator in _BY_BOTH:
            tensors.add(node.output(0))
        for dtype in sorted({graph.dtype(tensor) for tensor in tensors} - {""}):
            if allowed is not None and dtype not in allowed:
                yield Violation(node=node.label, found=f"{dtype}; {node.operator} takes {', '.join(sorted(allowed))}")
            elif node.operator in target.missing_types.get(dtype, ()):
                yield Violation(node=node.label, found=f"{dtype}, for which it has no {node.operator}")
            elif dtype not in target.dtypes | target.quantized and dtype not in target.missing_types:
                yield Violation(node=node.label, found=f"{dtype}, which it does not compute with")


@of_graph("input-output-type", "inputs and outputs of types that it computes with", TABLE)
def input_output_type(graph: Graph, target: RuntimeTarget) -> Iterator[Violation]:
    for tensor in sorted(graph.inputs | graph.outputs):
        if graph.dtype(tensor) not in target.dtypes:
            yield Violation(node=tensor, found=f"{graph.dtype(tensor) or 'no type'}")


@of_graph(
    "quantized-type",
    "8 and 4 bits only between QuantizeLinear and DequantizeLinear; uint8 as an input of the graph too",
    TABLE,
)
def quantized_type(graph: Graph, target: RuntimeTarget) -> Iterator[Violation]:
    for node in graph.nodes:
        if node.operator in QUANTIZERS | _BY_OUTPUT | _BY_BOTH:
            continue
        for tensor in filter(None, node.proto.input):
            dtype = graph.dtype(tensor)
            if dtype in _NARROW and not (dtype == "uint8" and tensor in graph.inputs):
                yield Violation(node=node.label, found=f"{tensor} of type {dtype}")


@of_graph("zero-point", "QuantizeLinear, DequantizeLinear: the zero point is 0", TABLE, QUANTIZERS)
def zero_point(graph: Graph, target: RuntimeTarget) -> Iterator[Violation]:
    for node in graph.nodes:
        tensor = node.input(2)
        if node.operator not in QUANTIZERS or not tensor:
            continue
        value = graph.constant(tensor)
        if value is None:
            yield Violation(node=node.label, found=f"{tensor}, whose value is not in the file")
        elif np.any(value.astype(np.float32)):
            yield Violation(node=node.label, found=f"{tensor} with {value.reshape(-1)[0]} and others, not 0")


@of_graph(
    "strong-types",
    "inputs of one operator that the standard wants alike are of one type: nothing is converted unasked",
    STRONG,
)
def strong_types(graph: Graph, target: RuntimeTarget) -> Iterator[Violation]:
    for node in graph.nodes:
        if node.proto.domain in STANDARD_DOMAINS:
            yield from _mixed_types(graph, node)


def _mixed_types(graph: Graph, node: Node) -> Iterator[Violation]:
    declared = onnx.defs.get_schema(node.operator, graph.opsets[""]).inputs
    several = declared and declared[-1].option == onnx.defs.OpSchema.FormalParameterOption.Variadic
    found: dict[str, dict[str, str]] = {}
    for at, tensor in enumerate(node.proto.input):
        parameter = declared[-1] if several and at >= len(declared) else declared[at]
        if tensor and graph.dtype(tensor) and parameter.is_homogeneous:
            found.setdefault(parameter.type_str, {})[tensor] = graph.dtype(tensor)
    for types in found.values():
        if len(set(types.values())) > 1:
            yield Violation(
                node=node.label, found=", ".join(f"{tensor} of type {dtype}" for tensor, dtype in types.items())
            )
