"""The frame of the passes that put attention plugins into a graph: every Attention is asked, in the order of the graph.

Legend: as attention_reach.py.
"""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass, TopologicalSortPass
from onnx_ir.tape import Tape

from export.graph.outcome import Outcome
from export.passes.match.attention_reach import Reach, Reaches, RefusalError

Fuse = Callable[[Tape, Reach, str], ir.Value]
"""From what an attention sees, and the node's name, to the plugin's output ``[B, H, S, D]``."""


def fuse_every_attention(model: ir.Model, name: str, fuse: Fuse) -> Outcome:
    """Replace every Attention for which there is a plugin.

    Args:
        model: is changed.
        name: of the pass.
        fuse: makes the nodes; raises :class:`RefusalError` where there is no plugin.
    """
    graph, fired, refusals = model.graph, 0, []
    tape = Tape(graph)
    reaches = Reaches(tape, graph)
    for node in [node for node in graph if node.op_type == "Attention" and not node.domain]:
        old = node.outputs[0]
        try:
            new = fuse(tape, reaches.of(node), str(node.name))
        except RefusalError as why:
            refusals.append(f"{old.name}: {why}")
            continue
        new.shape, new.type = old.shape, old.type
        old.replace_all_uses_with(new, replace_graph_outputs=True)
        fired += 1
    RemoveUnusedNodesPass()(model)
    TopologicalSortPass()(model)
    return Outcome(name=name, fired=fired, refusals=tuple(refusals))
