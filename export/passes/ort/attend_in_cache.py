"""Let Attendant's own operator attend over a cache, where a processor has the instructions for it.

    before    GroupQueryAttention(qkv, cache, n, A[, cos, sin][, s])
    after     CachedAttention(qkv, cache, n[, cos, sin])
              CachedAttentionInt8(qkv, cache, n, s[, cos, sin]) over integers

The same update in place and the same attention (serving/runtime/ort/kernels/cached_attention.c), which over integers
rounds queries to 16 bits instead of 8. It takes queries, keys and values beside each other, whole caches without a
window, and heads of whole vectors; other nodes stay.

Legend: n [B] the newest positions, A attended positions, s the steps of keys and of values.
Source: ONNX Runtime 1.31, docs/ContribOperators.md, com.microsoft.GroupQueryAttention.
"""

import onnx_ir as ir
from onnx_ir.tape import Tape

from export.graph.plugin_ops import NAMESPACE
from export.graph.rewrite import Rewrite, RewriteResult
from export.passes.match.products import replace_value

_KNOWN = {"num_heads", "kv_num_heads", "local_window_size", "do_rotary", "scale"}
_OF_INTEGERS = {"k_quant_type", "v_quant_type", "kv_cache_bit_width"}
_TABLES, _STEPS = slice(7, 9), slice(12, 14)
_VECTOR, _VECTOR_OF_INTEGERS, _MOST_SIZE, _MOST_HEADS = 16, 32, 512, 64


class AttendInCache(Rewrite):
    """Rewrite every GroupQueryAttention that the operator can take."""

    operators = frozenset({"GroupQueryAttention"})

    def rewrite(self, graph: ir.Graph, result: RewriteResult) -> None:
        tape = Tape(graph)
        for node in [node for node in graph if node.op_type == "GroupQueryAttention"]:
            inputs = [*node.inputs, *[None] * (_STEPS.stop - len(node.inputs))]
            tables, steps = inputs[_TABLES], inputs[_STEPS]
            if not _is_taken(node, inputs, bool(steps[0])):
                continue
            heads, groups = (node.attributes.get_int(name) for name in ("num_heads", "kv_num_heads"))
            assert heads and groups and inputs[3] is not None and inputs[3].shape is not None
            turns, size = tables[0] is not None, inputs[3].shape[-1]
            scale = node.attributes.get_float("scale", float(size) ** -0.5 if isinstance(size, int) else None)
            assert scale is not None
            made = tape.op_multi_out(
                "CachedAttentionInt8" if steps[0] else "CachedAttention",
                [inputs[0], *inputs[3:6], *(steps if steps[0] else ()), *(tables if turns else ())],
                {"heads": heads, "groups": groups, "turns": int(turns), "scale": scale},
                domain=NAMESPACE,
                num_outputs=3,
            )
            for old, new in zip(node.outputs, made, strict=True):
                replace_value(old, new)
            result.fired += 1
        if result.fired:
            graph.opset_imports[NAMESPACE] = 1


def _is_taken(node: ir.Node, inputs: list[ir.Value | None], of_integers: bool) -> bool:
    attributes = node.attributes
    if attributes.keys() - _KNOWN - (_OF_INTEGERS if of_integers else set()):
        return False
    if attributes.get_int("local_window_size", -1) != -1 or (of_integers and _is_of_channels(node)):
        return False
    cache, heads, groups = inputs[3], attributes.get_int("num_heads", 0), attributes.get_int("kv_num_heads", 0)
    size = None if cache is None or cache.shape is None else cache.shape[-1]
    if inputs[1] is not None or inputs[2] is not None or len(node.outputs) != 3 or not isinstance(size, int):
        return False
    left_out = [*inputs[_TABLES.stop : _STEPS.start], *inputs[_STEPS.stop :]]
    if any(one is not None for one in left_out) or any(inputs[place] is None for place in (0, 4, 5)):
        return False
    vector = _VECTOR_OF_INTEGERS if of_integers else _VECTOR
    return 0 < size <= _MOST_SIZE and size % vector == 0 and groups > 0 and heads // groups <= _MOST_HEADS


def _is_of_channels(node: ir.Node) -> bool:
    types = {node.attributes.get_string(name, "") for name in ("k_quant_type", "v_quant_type")}
    return types != {"PER_TENSOR"} or node.attributes.get_int("kv_cache_bit_width", 0) != 8
