"""Cut a map into windows, and join them again, by one Gather each: OpenVINO rolls and cuts by four copies.

    before    Slice, Concat (rows) → Slice, Concat (columns) → Reshape → Transpose → Reshape [B, N, P, C]
    after     Reshape [B, N P, C] → Gather(index of the place, axis 1) → Reshape [B, N, P, C]

Legend: B batch, N windows, P places of a window, C channels, h and w sides of the map.
Source: Liu et al. 2021, "Swin Transformer", section 3.2, for windows and their shift.
"""

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray
from onnx_ir.passes.common import RemoveUnusedNodesPass
from onnx_ir.tape import Tape

from export.graph.rewrite import Rewrite, RewriteResult
from export.passes.match.attention_reach import RefusalError
from export.passes.match.moves import reshape
from export.passes.match.products import add_initializer, replace_value
from export.passes.match.window_maps import Cut, cut_of, joined_after


class GatherWindows(Rewrite):
    """Rewrite every map that is cut into windows, and the windows that are joined to it."""

    operators = frozenset({"Reshape"})

    def rewrite(self, graph: ir.Graph, result: RewriteResult) -> None:
        cut, tape = None, Tape(graph)
        for node in list(graph):
            value = node.outputs[0]
            if node.graph is None:
                continue  # of a chain that was replaced
            if cut is not None and (whole := _find_join(value, cut)) is not None:
                _replace(tape, graph, whole, value, np.argsort(_places(cut)))
                cut = None
                result.fired += 1
                RemoveUnusedNodesPass()(result.model)
            elif node.op_type == "Reshape" and (found := _find_cut(value)) is not None:
                cut = found
                _replace(tape, graph, value, cut.map, _places(cut))
                result.fired += 1


def _find_cut(windows: ir.Value) -> Cut | None:
    try:
        cut = cut_of(windows)
    except RefusalError:
        return None
    return cut if _sizes(cut.map, 3) is not None else None


def _find_join(windows: ir.Value, cut: Cut) -> ir.Value | None:
    places = cut.window**2
    if (sizes := _sizes(windows, 3)) is None or sizes[:2] != [cut.height * cut.width // places, places]:
        return None
    try:
        whole = joined_after(windows, cut)
    except RefusalError:
        return None
    return whole if _sizes(whole, 3) is not None else None


def _sizes(value: ir.Value, count: int) -> list[int] | None:
    sizes = [] if value.shape is None else [size for size in value.shape[1:] if isinstance(size, int)]
    return sizes if len(sizes) == count else None


def _places(cut: Cut) -> NDArray[np.int32]:
    w = cut.window
    place = np.arange(cut.height * cut.width, dtype=np.int32).reshape(cut.height, cut.width)
    rolled = np.roll(place, (-cut.shift, -cut.shift), (0, 1))
    return rolled.reshape(cut.height // w, w, cut.width // w, w).swapaxes(1, 2).reshape(-1)


def _replace(tape: Tape, graph: ir.Graph, old: ir.Value, source: ir.Value, places: NDArray[np.int_]) -> None:
    sizes = _sizes(old, 3)
    assert sizes is not None
    made = reshape(tape, graph, source, (len(places), sizes[-1]))
    if not np.array_equal(places, np.arange(len(places))):
        index = add_initializer(graph, f"{old.name}.places", places.astype(np.int32))
        shape, dtype = made.shape, made.type
        made = tape.op("Gather", [made, index], {"axis": 1})
        made.shape, made.type = shape, dtype
    replace_value(old, reshape(tape, graph, made, sizes))
