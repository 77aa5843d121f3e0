"""Let Attendant's own operator attend to queries, keys and values as one product writes them.

    before    Split(P) → Q, K, V, of each Reshape → Transpose;  Attention(Q, K, V[, seen]) → Transpose → Reshape
    after     PackedAttention(P[, seen])

The same attention (serving/runtime/ort/kernels/packed_attention.c), for which no heads are moved. It takes heads of
whole vectors, and of masks those of booleans that are alike in all heads; other nodes stay.

Precondition: :class:`export.passes.ort.pack_products.PackProducts` ran before.

Legend: P [B, T, (H + 2G) · D], of H heads in G groups; seen [B or 1, 1, T or 1, T].
"""

import onnx_ir as ir
from onnx_ir.tape import Tape

from export.graph.plugin_ops import NAMESPACE
from export.graph.rewrite import Rewrite, RewriteResult
from export.passes.match.head_layout import exchanges_heads, producer
from export.passes.match.products import replace_value

_USUAL = {"is_causal": 0, "softcap": 0.0, "qk_matmul_output_mode": 0, "softmax_precision": ir.DataType.FLOAT.value}
_VECTOR, _MOST_SIZE, _MOST_HEADS = 16, 512, 64


class AttendPacked(Rewrite):
    """Rewrite every Attention that the operator can take."""

    operators = frozenset({"Attention"})

    def rewrite(self, graph: ir.Graph, result: RewriteResult) -> None:
        tape = Tape(graph)
        for node in [node for node in graph if node.op_type == "Attention"]:
            packed, joined, sizes, seen = _packed(node), _joined(node), _sizes(node), _seen(node)
            if packed is None or joined is None or sizes is None or len(seen) != len(node.inputs[3:]):
                continue
            heads, groups, size = sizes
            scale = node.attributes.get_float("scale", size**-0.5)
            attributes = {"heads": heads, "groups": groups, "scale": scale}
            made = tape.op("PackedAttention", [packed, *seen], attributes, domain=NAMESPACE)
            replace_value(joined, made)
            result.fired += 1
        if result.fired:
            graph.opset_imports[NAMESPACE] = 1


def _packed(node: ir.Node) -> ir.Value | None:
    """What queries, keys and values are split from, in this order."""
    transposes = [producer(value, "Transpose") for value in node.inputs[:3]]
    if not all(one is not None and exchanges_heads(one) for one in transposes):
        return None
    reshapes = [producer(one.inputs[0], "Reshape") for one in transposes if one is not None]
    flat = [None if one is None else one.inputs[0] for one in reshapes]
    split = producer(flat[0], "Split")
    if split is None or list(split.outputs) != flat or any(len(one.shape or ()) != 3 for one in split.outputs):
        return None
    return split.inputs[0] if split.attributes.get_int("axis", 0) in (-1, 2) else None


def _joined(node: ir.Node) -> ir.Value | None:
    """What is read of the answers: heads side by side."""
    others = {name: attribute.value for name, attribute in node.attributes.items() if name != "scale"}
    if len(node.outputs) != 1 or not others.items() <= _USUAL.items():
        return None
    moved = [user for user in node.outputs[0].consumers() if exchanges_heads(user)]
    users = [] if len(moved) != 1 else list(moved[0].outputs[0].consumers())
    is_all = len(users) == 1 and len(node.outputs[0].consumers()) == 1 and users[0].op_type == "Reshape"
    return users[0].outputs[0] if is_all and len(users[0].outputs[0].shape or ()) == 3 else None


def _sizes(node: ir.Node) -> tuple[int, int, int] | None:
    """How many heads there are, in how many groups, and of how many numbers each."""
    shapes = [
        value.shape if value is not None and value.dtype == ir.DataType.FLOAT else None for value in node.inputs[:3]
    ]
    if any(shape is None or len(shape) != 4 for shape in shapes):
        return None
    (heads, size), *others = [(shape[1], shape[3]) for shape in shapes if shape is not None]
    groups = others[0][0]
    if not isinstance(heads, int) or not isinstance(groups, int) or others != [(groups, size)] * 2:
        return None
    if not isinstance(size, int) or size % _VECTOR or size > _MOST_SIZE or heads // groups > _MOST_HEADS:
        return None
    return heads, groups, size


def _seen(node: ir.Node) -> list[ir.Value]:
    """The mask, as it was before it was made as large as the scores; none where there is none, or another."""
    if len(node.inputs) != 4 or node.inputs[3] is None:
        return []
    expanded = producer(node.inputs[3], "Expand")
    masks = [node.inputs[3], *([] if expanded is None else [expanded.inputs[0]])]
    fit = [mask for mask in masks if mask is not None and _is_of_keys(mask, node.inputs[0])]
    return fit[-1:]


def _is_of_keys(mask: ir.Value, queries_BHTD: ir.Value | None) -> bool:
    if queries_BHTD is None or queries_BHTD.shape is None or mask.shape is None or mask.dtype != ir.DataType.BOOL:
        return False
    batch, _, positions, _ = queries_BHTD.shape
    allowed = (batch, 1), (1,), (positions, 1), (positions,)
    return len(mask.shape) == 4 and all(size in sizes for size, sizes in zip(mask.shape, allowed, strict=True))
