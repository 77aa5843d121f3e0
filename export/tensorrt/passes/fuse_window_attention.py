"""Put the plugins of window attention in the place of windows that are cut, attended to and joined: Swin and SwinV2.

    before    roll → cut → Q, K, V = W x → [scaled cosines →] Attention(Q, K, V, bias and mask) → O → join → roll back
    after     Q, K, V = W · x → window_attention(Q, K, V, table) → O

Projections are of each place by itself, all with one matrix and one bias, so that they may stand before the cut; what
else reads those of windows keeps them. Bias and mask of all windows, constants of the graph, shrink to the table that
they were read from; they are rebuilt from it, and must come out the same.

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
from export.passes.match.window_maps import Cut, Floats, cut_of, joined_after, only_user, require_sizes, table_of

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
    if (scales is None) != (keys is _unflatten(node.inputs[1])):
        raise RefusalError("either queries or keys have length 1, not both")
    linears = [_linear(value) for value in (queries, keys, _unflatten(node.inputs[2]))]
    cut, heads = _common_cut(linears), linears[0].heads
    for value in node.inputs[:3]:
        _require_heads(value, cut, heads)
    _require_scale(node, scales, linears[0], heads)
    table = table_of(bias.const_value.numpy(), heads, cut)
    windows = _joined_heads(node.outputs[0], cut, heads)
    projected = _find_projection(windows)
    after = joined_after(projected[-1].outputs[0], cut)
    # Nothing was changed until here, so that a place which is refused stays whole.
    product = linears[0].nodes[0].inputs[0]
    map_BhwC = cut.map if product is None or product.dtype == cut.map.dtype else _as(tape, cut.map, product)
    inputs = [_on_map(tape, map_BhwC, linear.nodes, cut) for linear in linears]
    inputs.append(add_initializer(graph, f"{bias.name}.{node.name}.table", table))
    if scales is not None:
        inputs.append(add_initializer(graph, f"{bias.name}.{node.name}.scales", scales.reshape(-1).astype(np.float32)))
    numbers = {"window": cut.window, "shift": cut.shift}
    plugin = WINDOW if scales is None else COSINE_WINDOW
    made = plugin_outputs(tape, plugin, inputs, numbers, str(node.name))[0]
    made.type, made.shape = windows.type, inputs[0].shape
    replace_value(after, _on_map(tape, made, projected, cut))


def _unflatten(value: ir.Value | None) -> ir.Value:
    # [B, N H, P, D] → [B, N, H, P, D]
    node = producer(value, "Reshape")
    if node is None or node.inputs[0] is None or len(node.inputs[0].shape or ()) != 5:
        raise RefusalError("its heads are not those of windows")
    return node.inputs[0]


def _find_cosine(value: ir.Value, scaled: bool) -> tuple[ir.Value, Floats | None]:
    product = producer(value, "Mul") if scaled else None
    scales = None if product is None else _constant(product.inputs[1])
    divided = producer(value if product is None else product.inputs[0], "Div")
    clipped = producer(None if divided is None else divided.inputs[1], "Clip")
    length = producer(None if clipped is None else clipped.inputs[0], "ReduceL2")
    if divided is None or clipped is None or length is None:
        return value, None
    source, least, axes = divided.inputs[0], _constant(clipped.inputs[1]), _constant(*length.inputs[1:])
    of_heads = length.inputs[0] is source and axes is not None and axes.tolist() in ([-1], [4])
    if source is None or not of_heads or least is None or (scaled and scales is None):
        raise RefusalError("its cosines are computed in another way")
    if not math.isclose(float(least), _SHORTEST, rel_tol=1e-3):
        raise RefusalError(f"vectors count as at least {least} long, not {_SHORTEST}")
    return source, scales


def _constant(value: ir.Value | None = None) -> Floats | None:
    return None if value is None or value.const_value is None else value.const_value.numpy()


def _linear(value: ir.Value) -> _Linear:
    # [B, N, H, P, D] ← Transpose ← Reshape ← [B, N, P, C]
    exchanged = producer(value, "Transpose")
    apart = producer(None if exchanged is None else exchanged.inputs[0], "Reshape")
    if apart is None or exchanged is None or list(exchanged.attributes.get_ints("perm", ())) != _HEADS_INSIDE:
        raise RefusalError("its heads are taken apart in another way")
    result, shape = apart.inputs[0], apart.outputs[0].shape
    assert result is not None and shape is not None
    added = producer(result, "Add")
    product = producer(result if added is None else added.inputs[0], "MatMul")
    if product is None or not _has_one_matrix(product) or (added is not None and not _adds_bias(added)):
        raise RefusalError("no product before its heads with one matrix, and at most one bias, for all places")
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
    if scales is not None and (scales.size != heads or scales.shape[-3:] != (heads, 1, 1)):
        raise RefusalError(f"scales {list(scales.shape)} for {heads} heads")


def _require_fixed(size: int | ir.SymbolicDim) -> int:
    if not isinstance(size, int):
        raise RefusalError("its heads vary in number or size")
    return size


def _require_heads(value: ir.Value | None, cut: Cut, heads: int) -> None:
    # [B, N H, P, D], and before [B, N, H, P, D]
    assert value is not None
    require_sizes(value, cut.windows * heads, cut.places)
    require_sizes(_unflatten(value), cut.windows, heads, cut.places)


def _joined_heads(attended: ir.Value, cut: Cut, heads: int) -> ir.Value:
    apart = only_user(attended, "Reshape")
    exchanged = only_user(apart.outputs[0], "Transpose")
    if list(exchanged.attributes.get_ints("perm", ())) != _HEADS_INSIDE:
        raise RefusalError("its heads are joined in another way")
    windows = only_user(exchanged.outputs[0], "Reshape").outputs[0]
    require_sizes(apart.outputs[0], cut.windows, heads, cut.places)
    require_sizes(windows, cut.windows, cut.places)
    return windows


def _find_projection(windows: ir.Value) -> tuple[ir.Node, ...]:
    product = only_user(windows, "MatMul")
    if product.inputs[0] is not windows or not _has_one_matrix(product):
        raise RefusalError("no product with one matrix for all places behind its heads")
    adding = [user for user in product.outputs[0].consumers() if user.op_type == "Add" and _adds_bias(user)]
    return (product, only_user(product.outputs[0], "Add")) if adding else (product,)


def _has_one_matrix(product: ir.Node) -> bool:
    matrix = product.inputs[1]
    return matrix is not None and matrix.shape is not None and len(matrix.shape) == 2


def _adds_bias(added: ir.Node) -> bool:
    bias = _constant(added.inputs[1])
    return bias is not None and bias.ndim <= 4 and math.prod(bias.shape[:-1]) == 1


def _as(tape: Tape, value: ir.Value, like: ir.Value) -> ir.Value:
    assert like.dtype is not None
    made = tape.op("Cast", [value], {"to": like.dtype.value})
    made.type, made.shape = like.type, value.shape
    return made


def _on_map(tape: Tape, value: ir.Value, nodes: tuple[ir.Node, ...], cut: Cut) -> ir.Value:
    for node in nodes:
        old = node.outputs[0]
        assert old.shape is not None
        value = tape.op(node.op_type, [value, node.inputs[1]])
        value.type, value.shape = old.type, ir.Shape([old.shape[0], cut.height, cut.width, old.shape[3]])
    return value
