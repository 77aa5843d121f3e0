"""How the exporter writes attention and this project's own operators: each as one node of the standard.

Legend: B batch, S positions, T attended positions, D head size, E width of an input, N directions, H heads in attention
and the width of a state in recurrent layers.
Source: ONNX operator specification, Attention 24, TensorScatter 24, RNN 22, LSTM 22, GRU 22.
"""

from collections.abc import Sequence
from typing import Any

import onnxscript
import torch

from models.layers.kv_cache import TENSOR_SCATTER
from models.layers.recurrent import RECURRENT

OPSET = 24

_op = onnxscript.values.Opset("", OPSET)
_NODES = {"rnn": "RNN", "lstm": "LSTM", "gru": "GRU"}
# Where each gate of ONNX stands in torch: z, r, h among r, z, n; i, o, f, c among i, f, g, o.
_GATES = {"rnn": (0,), "lstm": (0, 3, 1, 2), "gru": (1, 0, 2)}


def measure_behind_casts(model: Any) -> None:
    """Read the shape of bytes, in a traced model, from what they are cast to: TensorRT has Shape for numbers alone."""
    bytes_ = [value for value in model.graph.inputs if value.dtype == onnxscript.UINT8.dtype]
    for value in bytes_:
        casts = [node.outputs[0] for node in value.consumers() if node.op_type == "Cast"]
        for node in value.consumers():
            if node.op_type == "Shape" and casts:
                node.replace_input_with(0, casts[0])
    model.graph.sort()


def _tensor_scatter(cache: Any, new: Any, start: Any) -> Any:
    return _op.TensorScatter(cache, new, start, axis=-2, mode="linear")


def _attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    mask, attributes = attn_mask, {} if scale is None else {"scale": scale}
    mask_axes = 0 if mask is None else len(mask.shape)
    if mask is not None and mask.shape[-2] == 1 and query.shape[-2] != 1:
        # ONNX Runtime 1.31 does not broadcast the query axis, though the standard lets it (attention_helper.h).
        ones, length = [_ints(1)] * (mask_axes - 2), _op.Shape(query, start=-2, end=-1)
        mask = _op.Expand(mask, _op.Concat(*ones, length, _ints(1), axis=0))
    if len(query.shape) == 4:
        return _op.Attention(query, key, value, mask, is_causal=int(is_causal), **attributes)[0]
    in_heads = enable_gqa or len(query.shape) > 4
    if mask_axes > 3:
        mask = _op.Expand(mask, _op.Concat(_op.Shape(query, end=-3), _ints(1, 1, 1), axis=0))
    if mask_axes > 2:
        mask = _fold(mask, in_heads)
    folded = [_fold(tensor, in_heads) for tensor in (query, key, value)]
    outputs_BHSD = _op.Attention(*folded, mask, is_causal=int(is_causal), **attributes)[0]
    return _op.Reshape(outputs_BHSD, _op.Concat(_op.Shape(query, end=-1), _op.Shape(value, start=-1), axis=0))


def _fold(tensor: Any, in_heads: bool) -> Any:
    """[..., H, S, D] or, of one head, [..., S, D] as the standard has it: [B, H, S, D]."""
    heads = _op.Shape(tensor, start=-3, end=-2) if in_heads else _ints(1)
    return _op.Reshape(tensor, _op.Concat(_ints(-1), heads, _op.Shape(tensor, start=-2), axis=0))


def _ints(*values: int) -> Any:
    return _op.Constant(value_ints=list(values))


def _clamp(values: Any, least: float | None = None, most: float | None = None) -> Any:
    bounds = [None if bound is None else _op.CastLike(float(bound), values) for bound in (least, most)]
    if values.dtype.is_floating_point():
        return _op.Clip(values, *bounds)
    # TensorRT has Clip for floating-point numbers alone; of Min and Max the exporter would make Clip again.
    for outside, bound in zip((_op.Less, _op.Greater), bounds, strict=True):
        values = values if bound is None else _op.Where(outside(values, bound), bound, values)
    return values


def _where(condition: Any, chosen: Any, other: Any) -> Any:
    if other.dtype != onnxscript.BOOL.dtype:
        return _op.Where(condition, chosen, other)
    # ONNX Runtime 1.31 has Where for numbers alone.
    return _op.Or(_op.And(condition, chosen), _op.And(_op.Not(condition), other))


def _masked_fill(values: Any, mask: Any, filling: Any) -> Any:
    return _where(mask, _op.CastLike(filling, values), values)


def _recurrent(
    inputs: Any, lengths: Any, initial: Sequence[Any], weights: Sequence[Any], cell: str, bidirectional: bool
) -> Any:
    inputs_SBE = _op.Transpose(inputs, perm=[1, 0, 2])  # ONNX Runtime has no batch-first recurrent nodes
    lengths_B = None if lengths is None else _op.Cast(lengths, to=onnxscript.INT32.dtype)
    attributes: dict[str, Any] = {"linear_before_reset": 1} if cell == "gru" else {}
    states_SNBH, *last = getattr(_op, _NODES[cell])(
        inputs_SBE,
        *_arrange_weights(weights, cell),
        lengths_B,
        *initial,
        hidden_size=weights[1].shape[1],
        direction="bidirectional" if bidirectional else "forward",
        **attributes,
    )
    outputs_BSH = _op.Reshape(_op.Transpose(states_SNBH, perm=[2, 0, 1, 3]), _op.Constant(value_ints=[0, 0, -1]))
    memory_NBH = last[1] if len(last) > 1 else _op.ConstantOfShape(_op.Constant(value_ints=[0]))
    return outputs_BSH, last[0], memory_NBH


def _arrange_weights(weights: Sequence[Any], cell: str) -> list[Any]:
    inputs, states, input_biases, state_biases = (
        [_order_gates(weight, cell) for weight in weights[part::4]] for part in range(4)
    )
    biases = [_op.Concat(*pair, axis=0) for pair in zip(input_biases, state_biases, strict=True)]
    return [
        _op.Concat(*(_op.Unsqueeze(part, _op.Constant(value_ints=[0])) for part in parts), axis=0)
        for parts in (inputs, states, biases)
    ]


def _order_gates(weight: Any, cell: str) -> Any:
    height = weight.shape[0] // len(_GATES[cell])
    rows = [gate * height + row for gate in _GATES[cell] for row in range(height)]
    return _op.Gather(weight, _op.Constant(value_ints=rows), axis=0)


TRANSLATIONS: dict[Any, Any] = {
    torch.ops.aten.scaled_dot_product_attention.default: _attention,
    torch.ops.aten.clamp.default: _clamp,
    torch.ops.aten.where.self: _where,
    torch.ops.aten.masked_fill.Scalar: _masked_fill,
    torch.ops.aten.masked_fill.Tensor: _masked_fill,
    TENSOR_SCATTER: _tensor_scatter,
    RECURRENT: _recurrent,
}
