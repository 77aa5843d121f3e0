"""Put the plugins of window attention in the place of windows that are cut, attended to and joined: Swin and SwinV2.

    before    roll → cut → Q, K, V = W x → [scaled cosines →] Attention(Q, K, V, bias and mask) → O → join → roll back
    after     Q, K, V = W · x → window_attention(Q, K, V, table) → O

Projections are of each place by itself, so that they may stand before the cut. Bias and mask of all windows, constants
of the graph, shrink to the table that they were read from; they are rebuilt from it, and must come out the same.

Legend: B batch, h and w sides of a map, N windows, P places of a window, C = H D channels, H heads, O offsets.
"""

import math
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
from onnx_ir.tape import Tape

from export.graph.plugin_ops import COSINE_WINDOW, WINDOW, plugin_outputs
from export.graph.rewrite import Rewrite, RewriteResult
from export.passes.match.attention_reach import RefusalError
from export.passes.match.head_layout import producer
from export.passes.match.products import add_initializer, replace_value
from export.passes.match.window_maps import Cut, Floats, cut_of, joined_after, only_user, table_of

_HEADS_INSIDE = [0, 1, 3, 2, 4]
_SHORTEST = 1e-4
"""Of a vector, where cosines are taken: the kernel's own constant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Linear:
    nodes: tuple[ir.Node, ...]
    result: ir.Value
    heads: int


class FuseWindowAttention(Rewrite):
    """Replace every attention in windows of a map."""

    operators = frozenset({"Attention"})

    def rewrite(self, graph: ir.Graph, result: RewriteResult) -> None:
        tape = Tape(graph)
        for node in [node for node in graph if node.op_type == "Attention" and not node.domain]:
            try:
                _fuse(tape, graph, node)
            except RefusalError as why:
                result.refused.append(f"{node.outputs[0].name}: {why}")
            else:
                result.fired += 1


def _fuse(tape: Tape, graph: ir.Graph, node: ir.Node) -> None:
    bias = node.inputs[3] if len(node.inputs) > 3 else None
    if bias is None or bias.const_value is None:
        raise RefusalError("it has no bias that is fixed")
    queries, scales = _find_cosine(_unflatten(node.inputs[0]), scaled=True)
    keys, _ = _find_cosine(_unflatten(node.inputs[1]), scaled=False)
    linears = [_linear(value) for value in (queries, keys, _unflatten(node.inputs[2]))]
    cut, heads = _common_cut(linears), linears[0].heads
    _require_scale(node, scales, linears[0], heads)
    table = table_of(bias.const_value.numpy(), heads, cut)
    windows = _joined_heads(node.outputs[0])
    projected = _find_projection(windows)
    after = joined_after(projected[-1].outputs[0], cut)
    # Nothing was changed until here, so that a place which is refused stays whole.
    inputs = [linear.result for linear in linears] + [add_initializer(graph, f"{bias.name}.{node.name}.table", table)]
    if scales is not None:
        inputs.append(add_initializer(graph, f"{bias.name}.{node.name}.scales", scales.reshape(-1).astype(np.float32)))
    product = linears[0].nodes[0].inputs[0]
    map_BhwC = cut.map if product is None or product.dtype == cut.map.dtype else _as(tape, cut.map, product)
    for linear in linears:
        linear.nodes[0].replace_input_with(0, map_BhwC)
        _on_map(linear.nodes, cut)
    numbers = {"window": cut.window, "shift": cut.shift}
    plugin = WINDOW if scales is None else COSINE_WINDOW
    made = plugin_outputs(tape, plugin, inputs, numbers, str(node.name))[0]
    made.type, made.shape = windows.type, linears[0].result.shape
    windows.replace_all_uses_with(made)
    _on_map(projected, cut)
    replace_value(after, projected[-1].outputs[0])


def _unflatten(value: ir.Value | None) -> ir.Value:
    # [B, N H, P, D] → [B, N, H, P, D]
    node = producer(value, "Reshape")
    if node is None or node.inputs[0] is None or len(node.inputs[0].shape or ()) != 5:
        raise RefusalError("its heads are not those of windows")
    return node.inputs[0]


def _find_cosine(value: ir.Value, scaled: bool) -> tuple[ir.Value, Floats | None]:
    product = producer(value, "Mul") if scaled else None
    scales = None if product is None or product.inputs[1] is None else product.inputs[1].const_value
    divided = producer(value if product is None else product.inputs[0], "Div")
    clipped = producer(None if divided is None else divided.inputs[1], "Clip")
    length = producer(None if clipped is None else clipped.inputs[0], "ReduceL2")
    if divided is None or clipped is None or length is None:
        return value, None
    source, least = divided.inputs[0], clipped.inputs[1]
    known = least is not None and least.const_value is not None
    if length.inputs[0] is not source or source is None or not known or (scaled and scales is None):
        raise RefusalError("its cosines are computed in another way")
    assert least is not None and least.const_value is not None
    if not math.isclose(float(least.const_value.numpy()), _SHORTEST, rel_tol=1e-3):
        raise RefusalError(f"vectors count as at least {least.const_value.numpy()} long, not {_SHORTEST}")
    return source, None if scales is None else scales.numpy()


def _linear(value: ir.Value) -> _Linear:
    # [B, N, H, P, D] ← Transpose ← Reshape ← [B, N, P, C]
    exchanged = producer(value, "Transpose")
    apart = producer(None if exchanged is None else exchanged.inputs[0], "Reshape")
    if apart is None or exchanged is None or list(exchanged.attributes.get_ints("perm", ())) != _HEADS_INSIDE:
        raise RefusalError("its heads are taken apart in another way")
    result, shape = apart.inputs[0], apart.outputs[0].shape
    assert result is not None and shape is not None
    only_user(result, "Reshape")
    added = producer(result, "Add")
    product = producer(result if added is None else added.inputs[0], "MatMul")
    if product is None:
        raise RefusalError("no product before its heads")
    nodes = (product,) if added is None else (product, added)
    return _Linear(nodes=nodes, result=result, heads=_require_fixed(shape[3]))


def _common_cut(linears: list[_Linear]) -> Cut:
    sources = {linear.nodes[0].inputs[0] for linear in linears}
    source = sources.pop()
    if sources or source is None:
        raise RefusalError("queries, keys and values are of different windows")
    cast = producer(source, "Cast")
    return cut_of(source if cast is None or cast.inputs[0] is None else cast.inputs[0])


def _require_scale(node: ir.Node, scales: Floats | None, linear: _Linear, heads: int) -> None:
    shape = linear.result.shape
    assert shape is not None
    size = _require_fixed(shape[3]) // heads
    wanted = 1.0 if scales is not None else size**-0.5
    scale = node.attributes.get_float("scale", size**-0.5)
    if not math.isclose(scale, wanted, rel_tol=1e-6):
        raise RefusalError(f"its scale is {scale:g}, not {wanted:g}")
    if scales is not None and scales.size != heads:
        raise RefusalError(f"{scales.size} scales for {heads} heads")


def _require_fixed(size: int | ir.SymbolicDim) -> int:
    if not isinstance(size, int):
        raise RefusalError("its heads vary in number or size")
    return size


def _joined_heads(attended: ir.Value) -> ir.Value:
    apart = only_user(attended, "Reshape")
    exchanged = only_user(apart.outputs[0], "Transpose")
    if list(exchanged.attributes.get_ints("perm", ())) != _HEADS_INSIDE:
        raise RefusalError("its heads are joined in another way")
    return only_user(exchanged.outputs[0], "Reshape").outputs[0]


def _find_projection(windows: ir.Value) -> tuple[ir.Node, ...]:
    product = only_user(windows, "MatMul")
    added = list(product.outputs[0].consumers())
    return (product, added[0]) if len(added) == 1 and added[0].op_type == "Add" else (product,)


def _as(tape: Tape, value: ir.Value, like: ir.Value) -> ir.Value:
    assert like.dtype is not None
    made = tape.op("Cast", [value], {"to": like.dtype.value})
    made.type, made.shape = like.type, value.shape
    return made


def _on_map(nodes: tuple[ir.Node, ...], cut: Cut) -> None:
    for node in nodes:
        value = node.outputs[0]
        assert value.shape is not None
        value.shape = ir.Shape([value.shape[0], cut.height, cut.width, value.shape[3]])
