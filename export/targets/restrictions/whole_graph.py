"""Restrictions on a graph as a whole: versions, domains, operators, element types, quantization."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx

from export.targets.restrictions.graph import QUANTIZERS, Graph, Node
from export.targets.restrictions.restriction import Breach, Restriction
from export.targets.restrictions.sources import STRONG, TABLE
from export.targets.targets import STANDARD_DOMAINS, Target

# Which input has the type that a runtime's table means, where it is not the first; the others count by their output.
_DATA_INPUT = {"Where": 1}
_BY_OUTPUT = frozenset({"Constant", "ConstantOfShape"})
_BY_BOTH = frozenset({"Cast", "CastLike"})
_NARROW = frozenset({"int8", "uint8", "int4", "uint4", "int2", "uint2", "float4e2m1", "float8e4m3fn", "float8e5m2"})
_RECORD = "the target's record (export/targets/targets.py)"


def _opset(graph: Graph, target: Target) -> Iterator[Breach]:
    oldest, newest = target.opsets
    for domain, version in graph.opsets.items():
        if domain in STANDARD_DOMAINS and not oldest <= version <= newest:
            yield Breach(node="opset_import", found=f"opset {version}; the target reads {oldest} to {newest}")


def _ir_version(graph: Graph, target: Target) -> Iterator[Breach]:
    if target.newest_ir_version is not None and graph.ir_version > target.newest_ir_version:
        found = f"IR version {graph.ir_version}; the target reads up to {target.newest_ir_version}"
        yield Breach(node="ir_version", found=found)


def _domain(graph: Graph, target: Target) -> Iterator[Breach]:
    for node in graph.nodes:
        if node.proto.domain not in target.domains:
            yield Breach(node=node.label, found=f"domain {node.proto.domain!r}")


def _operator(graph: Graph, target: Target) -> Iterator[Breach]:
    for node in graph.nodes:
        unlisted = target.operators and node.operator not in target.operators
        if node.proto.domain in STANDARD_DOMAINS and (unlisted or node.operator in target.missing_operators):
            yield Breach(node=node.label, found=f"{node.operator} is not among the operators that it reads")


def _element_type(graph: Graph, target: Target) -> Iterator[Breach]:
    for node in graph.nodes:
        if node.proto.domain not in STANDARD_DOMAINS:
            continue
        allowed = target.operators.get(node.operator)
        for dtype in _data_types(graph, node):
            if allowed is not None and dtype not in allowed:
                yield Breach(node=node.label, found=f"{dtype}; {node.operator} takes {', '.join(sorted(allowed))}")
            elif node.operator in target.missing_types.get(dtype, ()):
                yield Breach(node=node.label, found=f"{dtype}, for which it has no {node.operator}")
            elif dtype not in target.dtypes | target.quantized and dtype not in target.missing_types:
                yield Breach(node=node.label, found=f"{dtype}, which it does not compute with")


def _data_types(graph: Graph, node: Node) -> list[str]:
    first = node.input(_DATA_INPUT.get(node.operator, 0))
    tensors = {node.output(0)} if node.operator in _BY_OUTPUT or not first else {first}
    if node.operator in _BY_BOTH:
        tensors.add(node.output(0))
    return sorted({graph.dtype(tensor) for tensor in tensors} - {""})


def _input_output_type(graph: Graph, target: Target) -> Iterator[Breach]:
    for tensor in sorted(graph.inputs | graph.outputs):
        if graph.dtype(tensor) not in target.dtypes:
            yield Breach(node=tensor, found=f"{graph.dtype(tensor) or 'no type'}")


def _quantized_type(graph: Graph, target: Target) -> Iterator[Breach]:
    for node in graph.nodes:
        if node.operator in QUANTIZERS | _BY_OUTPUT | _BY_BOTH:
            continue
        for tensor in filter(None, node.proto.input):
            dtype = graph.dtype(tensor)
            if dtype in _NARROW and not (dtype == "uint8" and tensor in graph.inputs):
                yield Breach(node=node.label, found=f"{tensor} of type {dtype}")


def _zero_point(graph: Graph, target: Target) -> Iterator[Breach]:
    for node in graph.nodes:
        tensor = node.input(2)
        if node.operator not in QUANTIZERS or not tensor:
            continue
        value = graph.constant(tensor)
        if value is None:
            yield Breach(node=node.label, found=f"{tensor}, whose value is not in the file")
        elif np.any(value.astype(np.float32)):
            yield Breach(node=node.label, found=f"{tensor} with {value.reshape(-1)[0]} and others, not 0")


def _strong_types(graph: Graph, target: Target) -> Iterator[Breach]:
    for node in graph.nodes:
        if node.proto.domain in STANDARD_DOMAINS:
            yield from _mixed(graph, node)


def _mixed(graph: Graph, node: Node) -> Iterator[Breach]:
    declared = onnx.defs.get_schema(node.operator, graph.opsets[""]).inputs
    several = declared and declared[-1].option == onnx.defs.OpSchema.FormalParameterOption.Variadic
    found: dict[str, dict[str, str]] = {}
    for at, tensor in enumerate(node.proto.input):
        parameter = declared[-1] if several and at >= len(declared) else declared[at]
        if tensor and graph.dtype(tensor) and parameter.is_homogeneous:
            found.setdefault(parameter.type_str, {})[tensor] = graph.dtype(tensor)
    for types in found.values():
        if len(set(types.values())) > 1:
            yield Breach(
                node=node.label, found=", ".join(f"{tensor} of type {dtype}" for tensor, dtype in types.items())
            )


WHOLE_GRAPH = (
    Restriction(
        name="strong-types",
        statement="inputs of one operator that the standard wants alike are of one type: nothing is converted unasked",
        source=STRONG,
        find=_strong_types,
    ),
    Restriction(name="opset", statement="the standard's version is one that it reads", source=_RECORD, find=_opset),
    Restriction(
        name="ir-version", statement="the file format is not newer than it reads", source=_RECORD, find=_ir_version
    ),
    Restriction(name="domain", statement="operators of known domains only", source=_RECORD, find=_domain),
    Restriction(name="operator", statement="operators that it reads only", source=_RECORD, find=_operator),
    Restriction(
        name="element-type",
        statement="each operator with element types that it has for it",
        source=_RECORD,
        find=_element_type,
    ),
    Restriction(
        name="input-output-type",
        statement="inputs and outputs of types that it computes with",
        source=TABLE,
        find=_input_output_type,
    ),
    Restriction(
        name="quantized-type",
        statement="8 and 4 bits only between QuantizeLinear and DequantizeLinear; uint8 as an input of the graph too",
        source=TABLE,
        find=_quantized_type,
    ),
    Restriction(
        name="zero-point",
        statement="QuantizeLinear, DequantizeLinear: the zero point is 0",
        source=TABLE,
        find=_zero_point,
        operators=QUANTIZERS,
    ),
)
