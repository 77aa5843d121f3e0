"""Vocabularies in 8 bits: tables in which the graph's inputs are looked up, with a scale a row.

    before    Gather(E, ids)
    after     Cast(Gather(round(E / s), ids)) · Gather(s, ids)

Half of a small language model's bytes are such a table, of which a step reads one row. Tables of positions, which are
looked up at computed places, are small and stay. Where a table is also a product's weight,
:mod:`export.passes.quantise.quantise_dynamic` does this to both.

Legend: E is [words, width], s [words].
"""

import numpy as np
import onnx_ir as ir
from onnx_ir.tape import Tape

from export.graph.rewrite import Rewrite, RewriteResult
from export.passes.match.products import add_initializer, replace_value
from export.passes.quantise.quantise_dynamic import LEAST_INPUTS, is_lookup, look_up, quantise_columns


class QuantiseTables(Rewrite):
    """Rewrite every lookup of an input of the graph in a float32 table that has no other readers."""

    operators = frozenset({"Gather"})

    def rewrite(self, graph: ir.Graph, result: RewriteResult) -> None:
        tape = Tape(graph)
        for node in [node for node in graph if is_lookup(node) and _is_table(node.inputs[0], graph)]:
            table, ids = node.inputs
            assert table is not None and table.const_value is not None
            width = table.const_value.shape.numpy()[1]
            if width < LEAST_INPUTS:
                result.refused.append(f"{table.name}: its rows have {width} numbers, less than {LEAST_INPUTS}")
                continue
            levels, scales = quantise_columns(table.const_value.numpy().T)
            weight = add_initializer(graph, f"{table.name}.int8", np.ascontiguousarray(levels.T))
            found = look_up(tape, weight, add_initializer(graph, f"{table.name}.row_scale", scales), ids)
            replace_value(node.outputs[0], found)
            result.fired += 1


def _is_table(value: ir.Value | None, graph: ir.Graph) -> bool:
    if value is None or not value.is_initializer() or value.dtype != ir.DataType.FLOAT or value.const_value is None:
        return False
    readers = list(value.consumers())
    of_inputs = [reader for reader in readers if is_lookup(reader) and reader.inputs[1] in graph.inputs]
    return len(of_inputs) == len(readers) and len(value.const_value.shape) == 2
