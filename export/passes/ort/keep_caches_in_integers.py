"""Cache integers where a graph rounds what it caches, and let standard Attention read the numbers that they stand for.

    before    TensorScatter(cache, DequantizeLinear(k, s, 0), start) → Slice → Attention
    after     TensorScatter(cache, k, start) → Slice → DequantizeLinear(·, s, 0) → Attention

The caches are the same that GroupQueryAttention updates (:mod:`export.passes.ort.lower_cached_attention`). That node
reads a prompt over caches in 8 bits slowly: it multiplies row by row. Here the numbers are restored once a run, and
multiplied as matrices; of a single token that would be most of the work.

Source: ONNX operator specification, TensorScatter and DequantizeLinear.
"""

import onnx_ir as ir
from onnx_ir.tape import Tape

from export.graph.rewrite import Rewrite, RewriteResult
from export.passes.match.cache_rounding import NOT_SYMMETRIC, CacheRounding, rounding_before

_INT8 = ir.TensorType(ir.DataType.INT8)


class KeepCachesInIntegers(Rewrite):
    """Rewrite every TensorScatter of rounded numbers in a graph that reads prompts alone: one that scores nothing."""

    operators = frozenset({"TensorScatter"})

    def rewrite(self, graph: ir.Graph, result: RewriteResult) -> None:
        if any(value.name == "scored" for value in graph.inputs):
            return
        for node in [node for node in graph if node.op_type == "TensorScatter"]:
            rounding, cache = rounding_before(node), node.inputs[0]
            if rounding is None:
                continue
            if not rounding.symmetric or cache is None or cache not in graph.inputs:
                result.missed.append(f"{node.outputs[0].name}: {NOT_SYMMETRIC}")
                continue
            node.replace_input_with(1, rounding.integers)
            written = node.outputs[0]
            cache.type = written.type = _INT8
            for user, index in list(written.uses()):
                if user.op_type == "Slice":
                    user.outputs[0].type = _INT8
                    for reader, place in list(user.outputs[0].uses()):
                        reader.replace_input_with(place, _restored(graph, user.outputs[0], rounding, reader))
                else:
                    user.replace_input_with(index, _restored(graph, written, rounding, user))
            result.fired += 1


def _restored(graph: ir.Graph, integers: ir.Value, rounding: CacheRounding, reader: ir.Node) -> ir.Value:
    tape = Tape()
    restored = tape.op("DequantizeLinear", [integers, rounding.scale, rounding.zero])
    restored.shape, restored.type = integers.shape, ir.TensorType(ir.DataType.FLOAT)
    graph.insert_before(reader, tape.nodes)
    return restored
