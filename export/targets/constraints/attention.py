"""Constraints on Attention: TensorRT's IAttention takes Q, K, V and a mask, and nothing that remembers.

Legend: B batch, H query heads, G key and value heads, S query positions, T attended positions, D head size.
"""

from export.targets.constraints.forms import attribute_in, of_nodes, ranks, shape_text, without_inputs, without_outputs
from export.targets.constraints.graph import Graph, Node
from export.targets.constraints.sources import FUSION, ORT, PARSER, TABLE

_ATTENTION = frozenset({"Attention"})
_QUERY, _KEY, _VALUE, _MASK, _LENGTHS = 0, 1, 2, 3, 6
_HEADS_AXIS, _POSITIONS_AXIS = 1, 2
_LARGEST_HEAD = 256


ranks("attention-rank", _ATTENTION, {0: "Q", 1: "K", 2: "V", 3: "attn_mask"}, (4,), TABLE)
without_inputs("attention-past", _ATTENTION, {4: "past_key", 5: "past_value"}, f"{TABLE}; NVIDIA/TensorRT #4738")
without_inputs("attention-lengths", _ATTENTION, {_LENGTHS: "nonpad_kv_seqlen"}, TABLE)
without_outputs("attention-outputs", _ATTENTION, 1, TABLE)
attribute_in("attention-softcap", _ATTENTION, "softcap", (0.0,), f"{TABLE}; ONNX Runtime's CUDA provider")
attribute_in("attention-score-mode", _ATTENTION, "qk_matmul_output_mode", (0,), TABLE)


@of_nodes("attention-softmax-precision", _ATTENTION, "Attention: no softmax_precision", PARSER)
def attention_softmax_precision(graph: Graph, node: Node) -> str | None:
    found = node.attribute("softmax_precision")
    return None if found is None else f"softmax_precision = {found}"


@of_nodes(
    "attention-scale",
    _ATTENTION,
    "Attention: scale is 1; queries are multiplied before",
    f"{PARSER}, AttentionHelpers.cpp: of another scale, Q and K are multiplied by the root, in their own type",
)
def attention_scale(graph: Graph, node: Node) -> str | None:
    found = node.attribute("scale")
    return None if found == 1.0 else f"scale = {found or '1/√D, which is left out'}"


@of_nodes(
    "attention-decomposable",
    _ATTENTION,
    "Attention: TRT_decomposable is 1, so that it builds where no fused kernel takes it",
    f"{PARSER}: 0 where it is left out; {FUSION}",
)
def attention_decomposable(graph: Graph, node: Node) -> str | None:
    return None if node.attribute("TRT_decomposable", 0) else "no TRT_decomposable"


@of_nodes(
    "attention-mask-axes",
    _ATTENTION,
    "Attention: the mask has a row for every query and a column for every key; its other axes may be 1",
    f"{TABLE}; NvInfer.h, IAttention::setMask",
)
def attention_mask_axes(graph: Graph, node: Node) -> str | None:
    mask, query, key = (graph.axes(node.input(index)) for index in (_MASK, _QUERY, _KEY))
    if mask is None or query is None or key is None or {len(mask), len(query), len(key)} != {4}:
        return None
    wanted = (query[0], query[_HEADS_AXIS], query[_POSITIONS_AXIS], key[_POSITIONS_AXIS])
    for axis, (found, whole) in enumerate(zip(mask, wanted, strict=True)):
        known = isinstance(found, int) and (found == 1 or isinstance(whole, int))
        if known and found != whole and not (axis <= _HEADS_AXIS and found == 1):
            return f"mask {shape_text(mask)} for Q {shape_text(query)} and K {shape_text(key)}"
    return None


@of_nodes(
    "attention-heads",
    _ATTENTION,
    "Attention: the number of heads of Q, K and V is fixed",
    "pytorch/TensorRT impl/attention.py, which restores it; the table: axis 1 states the heads",
)
def attention_heads(graph: Graph, node: Node) -> str | None:
    for index, word in ((_QUERY, "Q"), (_KEY, "K"), (_VALUE, "V")):
        axes = graph.axes(node.input(index))
        if axes is None or len(axes) != 4 or not isinstance(axes[_HEADS_AXIS], int):
            return f"{word} {shape_text(axes)}"
    return None


@of_nodes(
    "attention-causal-lengths",
    _ATTENTION,
    "Attention: is_causal only where queries and keys are equally many",
    "microsoft/onnxruntime #29020: runtimes align the triangle differently",
)
def attention_causal_lengths(graph: Graph, node: Node) -> str | None:
    if not node.attribute("is_causal", 0):
        return None
    query, key = graph.axes(node.input(_QUERY)), graph.axes(node.input(_KEY))
    lengths = [axes[_POSITIONS_AXIS] if axes is not None and len(axes) == 4 else None for axes in (query, key)]
    if lengths[0] is not None and lengths[0] == lengths[1]:
        return None
    return f"is_causal with Q {shape_text(query)} and K {shape_text(key)}"


@of_nodes(
    "attention-causal-mask",
    _ATTENTION,
    "Attention: is_causal or a mask, not both",
    "TensorRT's Python API, IAttention.mask: exclusive with causal_kind",
)
def attention_causal_mask(graph: Graph, node: Node) -> str | None:
    both = node.attribute("is_causal", 0) and node.input(_MASK)
    return f"is_causal and the mask {node.input(_MASK)}" if both else None


@of_nodes("attention-in-if", _ATTENTION, "Attention: not in a branch of If", "NVIDIA/TensorRT #4739 (10.16)")
def attention_in_if(graph: Graph, node: Node) -> str | None:
    return f"inside {' > '.join(node.inside)}" if "If" in node.inside else None


@of_nodes(
    "attention-mask-query-axis",
    _ATTENTION,
    "Attention: the mask has a row for every query",
    f"{ORT}: attention_helper.h does not broadcast the axis",
)
def attention_mask_query_axis(graph: Graph, node: Node) -> str | None:
    mask, query = graph.axes(node.input(_MASK)), graph.axes(node.input(_QUERY))
    if not node.input(_MASK) or mask is None or len(mask) < 2 or mask[-2] != 1:
        return None
    if query is not None and len(query) == 4 and query[_POSITIONS_AXIS] == 1:
        return None
    return f"mask {shape_text(mask)} for Q {shape_text(query)}"


@of_nodes(
    "attention-head-size-nonpad",
    _ATTENTION,
    f"Attention: no head larger than {_LARGEST_HEAD} with nonpad_kv_seqlen",
    "microsoft/onnxruntime #28388",
)
def attention_head_size_nonpad(graph: Graph, node: Node) -> str | None:
    axes = graph.axes(node.input(_QUERY))
    size = axes[-1] if axes is not None and len(axes) == 4 else None
    wide = isinstance(size, int) and size > _LARGEST_HEAD
    return f"heads of {size} with nonpad_kv_seqlen" if wide and node.input(_LENGTHS) else None
