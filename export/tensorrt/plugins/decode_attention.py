"""The plugin of :mod:`models.kernels.decode_attention`, its first step: a mean and a base of every split.

Annotations are read by TensorRT when the functions are made, and so are no strings here.

Legend: B batch, S new positions, M capacity, H query heads, G key and value heads, R = S H / G rows that share a head,
D head size, N splits.
"""

import tensorrt as trt
import tensorrt.plugin as trtp

from export.graph.plugin_ops import DECODE, NAMESPACE
from export.tensorrt.plugins.embedding import launch, tiles_target
from export.tensorrt.plugins.tensor_descriptions import heads_of, type_of
from models.kernels import decode_attention

PLUGIN = f"{NAMESPACE}::{DECODE.name}"


@trtp.register(PLUGIN)
def describe_outputs(
    queries: trtp.TensorDesc,
    keys: trtp.TensorDesc,
    values: trtp.TensorDesc,
    lengths: trtp.TensorDesc,
    causal: int,
    rows: int,
    splits: int,
) -> tuple[trtp.TensorDesc, trtp.TensorDesc]:
    """Parts ``[B, G, N, R, D]`` and bases ``[B, G, N, R]``, both float32."""
    batch, heads, count, size = queries.shape_expr
    groups = keys.shape_expr[1]
    shape = (batch, groups, splits, heads * count // groups)
    parts = trtp.from_shape_expr((*shape, size), trt.DataType.FLOAT)
    return parts, trtp.from_shape_expr(shape, trt.DataType.FLOAT)


@trtp.aot_impl(PLUGIN)
def implement(
    queries: trtp.TensorDesc,
    keys: trtp.TensorDesc,
    values: trtp.TensorDesc,
    lengths: trtp.TensorDesc,
    causal: int,
    rows: int,
    splits: int,
    outputs: tuple[trtp.TensorDesc, trtp.TensorDesc],
    tactic: int,
) -> tuple[str, str, trtp.KernelLaunchParams, trtp.SymIntExprs]:
    """The kernel for these heads and at most R rows, and its launch."""
    heads = heads_of(queries, keys)
    kernel = decode_attention.specialise(heads, bool(causal), rows, splits, tiles_target(), type_of(lengths))
    numbers = {"queries": queries.shape_expr[2], "capacity": keys.shape_expr[2]}
    return launch(DECODE.name, kernel, decode_attention.grid(kernel, queries.shape_expr[0]), numbers)
