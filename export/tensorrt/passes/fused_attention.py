"""The frame of the passes that put attention plugins into a graph: every Attention is asked, in the order of the graph.

Legend: as attention_reach.py.
"""

from abc import abstractmethod
from dataclasses import dataclass

import onnx_ir as ir
from onnx_ir.tape import Tape

from export.graph.rewrite import Rewrite, RewriteResult
from export.passes.match.attention_reach import Reach, Reaches, RefusalError
from export.passes.match.products import replace_value


@dataclass(frozen=True, kw_only=True)
class FuseAttention(Rewrite):
    """Replace every Attention for which there is a plugin.

    Attributes:
        padded_behind: whether padding is known to stand behind a row's tokens; masks are no plugin's if it is not.
    """

    operators = frozenset({"Attention"})
    padded_behind: bool = False

    @abstractmethod
    def fuse(self, tape: Tape, reach: Reach, name: str) -> ir.Value:
        """Make the nodes of the plugin.

        Args:
            tape: of the graph.
            reach: what the attention sees.
            name: of the node.

        Returns:
            The plugin's output ``[B, H, S, D]``.

        Raises:
            RefusalError: there is no plugin for it.
        """

    def rewrite(self, graph: ir.Graph, result: RewriteResult) -> None:
        tape = Tape(graph)
        reaches = Reaches(tape, graph, self.padded_behind)
        for node in [node for node in graph if node.op_type == "Attention" and not node.domain]:
            old = node.outputs[0]
            try:
                new = self.fuse(tape, reaches.of(node), str(node.name))
            except RefusalError as why:
                result.refused.append(f"{old.name}: {why}")
                continue
            replace_value(old, new)
            result.fired += 1
