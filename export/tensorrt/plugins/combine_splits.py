"""The plugin of :mod:`models.kernels.combine_splits`, the second step of decode attention.

Annotations are read by TensorRT when the functions are made, and so are no strings here.

Legend: B batch, S new positions, H query heads, G key and value heads, R = S H / G rows that share a head, D head size,
N splits.
"""

import tensorrt.plugin as trtp

from export.graph.plugin_ops import COMBINE, NAMESPACE
from export.tensorrt.plugins.embedding import launch
from export.tensorrt.plugins.tensor_descriptions import fixed_size, type_of, type_of_onnx
from models.kernels import combine_splits

PLUGIN = f"{NAMESPACE}::{COMBINE.name}"


@trtp.register(PLUGIN)
def describe_outputs(parts: trtp.TensorDesc, bases: trtp.TensorDesc, heads: int, element_type: int) -> trtp.TensorDesc:
    """``[B, H, S, D]`` of the type that ONNX gives that number."""
    batch, groups, _, rows, size = parts.shape_expr
    return trtp.from_shape_expr((batch, heads, rows * groups // heads, size), type_of_onnx(element_type))


@trtp.aot_impl(PLUGIN)
def implement(
    parts: trtp.TensorDesc,
    bases: trtp.TensorDesc,
    heads: int,
    element_type: int,
    outputs: tuple[trtp.TensorDesc],
    tactic: int,
) -> tuple[str, str, trtp.KernelLaunchParams, trtp.SymIntExprs]:
    """The kernel for heads and splits of this size, and its launch."""
    batch, groups, _, rows, _ = parts.shape_expr
    kernel = combine_splits.specialise(fixed_size(parts, 4), fixed_size(parts, 2), type_of(outputs[0]))
    return launch(COMBINE.name, kernel, combine_splits.grid(batch, groups, rows), {"rows": rows})
