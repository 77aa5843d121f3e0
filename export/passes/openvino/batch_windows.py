"""Attend within windows that all have one bias as in so many sequences: OpenVINO then moves heads within its attention.

    before    [B, N, P, H, D] → Transpose, Reshape → [B, N H, P, D] → Attention(bias [N H, P, P]) → and back
    after     Reshape [B N, P, H, D] → Transpose [B N, H, P, D] → Attention(bias [1, H, P, P]) → and back

Windows of a shifted map have biases that differ. They stay as they are: a bias for each sequence of a batch costs more
than the moves (docs/log.md).

Legend: B batch, N windows, P places of a window, H heads, D head size.
Source: Liu et al. 2021, "Swin Transformer", section 3.2.
"""

import numpy as np
import numpy.typing as npt
import onnx_ir as ir
from onnx_ir.tape import Tape

from export.graph.rewrite import Rewrite, RewriteResult
from export.passes.match.products import add_initializer, replace_value
from export.passes.match.score_factors import bias_of, sees_all

_HEADS_FIRST, _HEADS_OF_WINDOWS_FIRST = [0, 2, 1, 3], (0, 1, 3, 2, 4)
_Sizes = tuple[int, int, int, int]


class BatchWindows(Rewrite):
    """Rewrite every Attention over windows whose constant bias is the same for each of them."""

    operators = frozenset({"Attention"})

    def rewrite(self, graph: ir.Graph, result: RewriteResult) -> None:
        tape = Tape(graph)
        for node in [node for node in graph if sees_all(node) and bias_of(node)]:
            sources = [_of_windows(value) for value in node.inputs[:3]]
            if None in sources or len({sizes for _, sizes in filter(None, sources)}) != 1:
                continue
            windows, places, heads, size = next(sizes for _, sizes in filter(None, sources))
            moved = _moved_back(node.outputs[0], [windows, heads, places, size])
            bias = _shared_bias(bias_of(node), windows, heads)
            if moved is None or bias is None:
                continue
            apart = add_initializer(
                graph, f"apart.{places}x{heads}x{size}", np.array([-1, places, heads, size], np.int64)
            )
            whole = add_initializer(
                graph,
                f"whole.{windows}x{places}x{heads}x{size}",
                np.array([-1, windows, places, heads, size], np.int64),
            )
            inputs = [
                _typed(
                    tape.op("Transpose", [tape.op("Reshape", [source, apart])], {"perm": _HEADS_FIRST}),
                    source,
                    [None, heads, places, size],
                )
                for source, _ in filter(None, sources)
            ]
            inputs.append(add_initializer(graph, f"{node.outputs[0].name}.bias", bias))
            attended = tape.op("Attention", inputs, dict(node.attributes))
            _typed(attended, node.outputs[0], [None, heads, places, size])
            replace_value(moved, tape.op("Reshape", [tape.op("Transpose", [attended], {"perm": _HEADS_FIRST}), whole]))
            result.fired += 1


def _of_windows(value: ir.Value | None) -> tuple[ir.Value, _Sizes] | None:
    """What queries, keys or values are before heads and windows become one axis; with N, P, H and D."""
    merged = _made_by(value, "Reshape")
    moved = None if merged is None else _made_by(merged.inputs[0], "Transpose")
    apart = None if moved is None else _made_by(moved.inputs[0], "Reshape")
    if moved is None or apart is None or tuple(moved.attributes.get_ints("perm", ())) != _HEADS_OF_WINDOWS_FIRST:
        return None
    source, shape = apart.inputs[0], apart.outputs[0].shape
    sizes = () if shape is None else tuple(size for size in shape[1:] if isinstance(size, int))
    if source is None or len(sizes) != 4 or value is None or value.shape is None:
        return None
    windows, places, heads, size = sizes
    return (source, sizes) if list(value.shape[1:]) == [windows * heads, places, size] else None


def _moved_back(attended: ir.Value, sizes: list[int]) -> ir.Value | None:
    """What is attended to as [B, N, P, H, D], where it is moved there by way of [B, N, H, P, D]."""
    apart = _read_by(attended, "Reshape")
    moved = None if apart is None else _read_by(apart.outputs[0], "Transpose")
    if apart is None or moved is None or tuple(moved.attributes.get_ints("perm", ())) != _HEADS_OF_WINDOWS_FIRST:
        return None
    shape = apart.outputs[0].shape
    return moved.outputs[0] if shape is not None and list(shape[1:]) == sizes else None


def _shared_bias(bias: ir.Value | None, windows: int, heads: int) -> npt.NDArray[np.float32] | None:
    if bias is None or bias.const_value is None:
        return None
    values = bias.const_value.numpy()
    if values.shape[-3:-2] != (windows * heads,) or len(values.reshape(-1, *values.shape[-3:])) != 1:
        return None
    of_windows = values.reshape(windows, heads, *values.shape[-2:])
    return np.ascontiguousarray(of_windows[:1]) if (of_windows == of_windows[:1]).all() else None


def _made_by(value: ir.Value | None, operator: str) -> ir.Node | None:
    node = None if value is None else value.producer()
    return node if node is not None and node.op_type == operator and not node.domain else None


def _read_by(value: ir.Value, operator: str) -> ir.Node | None:
    readers = list(value.consumers())
    alone = len(readers) == 1 and not value.is_graph_output()
    return readers[0] if alone and readers[0].op_type == operator else None


def _typed(value: ir.Value, like: ir.Value, sizes: list[int | None]) -> ir.Value:
    value.shape, value.type = ir.Shape(sizes), like.type
    return value
