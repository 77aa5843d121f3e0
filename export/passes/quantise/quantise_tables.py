"""Vocabularies in 8 bits: tables in which the graph's inputs are looked up, with a scale a row.

    before    Gather(E, ids)
    after     Cast(Gather(round(E / s), ids)) · Gather(s, ids)

Half of a small language model's bytes are such a table, of which a step reads one row. Tables of positions, which are
looked up at computed places, are small and stay. Where a table is also a product's weight,
:mod:`export.passes.quantise.quantise_dynamic` does this to both.

Legend: E is [words, width], s [words].
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass, TopologicalSortPass
from onnx_ir.tape import Tape

from export.graph.outcome import Outcome
from export.passes.match.products import stored, take_the_place_of
from export.passes.quantise.quantise_dynamic import LEAST_INPUTS, in_8_bits, is_lookup, looked_up


def quantise_tables(model: ir.Model) -> Outcome:
    """Rewrite every lookup of an input of the graph in a float32 table that has no other readers."""
    graph, refusals = model.graph, []
    tape, fired = Tape(graph), 0
    for node in [node for node in graph if is_lookup(node) and _is_table(node.inputs[0], graph)]:
        table, ids = node.inputs
        assert table is not None and table.const_value is not None
        width = table.const_value.shape.numpy()[1]
        if width < LEAST_INPUTS:
            refusals.append(f"{table.name}: its rows have {width} numbers, less than {LEAST_INPUTS}")
            continue
        levels, scales = in_8_bits(table.const_value.numpy().T)
        weight = stored(graph, f"{table.name}.int8", np.ascontiguousarray(levels.T))
        found = looked_up(tape, weight, stored(graph, f"{table.name}.row_scale", scales), ids)
        take_the_place_of(node.outputs[0], found)
        fired += 1
    RemoveUnusedNodesPass()(model)
    TopologicalSortPass()(model)
    return Outcome(name="quantise_tables", fired=fired, refusals=tuple(refusals))


def _is_table(value: ir.Value | None, graph: ir.Graph) -> bool:
    if value is None or not value.is_initializer() or value.dtype != ir.DataType.FLOAT or value.const_value is None:
        return False
    readers = list(value.consumers())
    of_inputs = [reader for reader in readers if is_lookup(reader) and reader.inputs[1] in graph.inputs]
    return len(of_inputs) == len(readers) and len(value.const_value.shape) == 2
