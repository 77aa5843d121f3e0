"""The plugin of :mod:`models.kernels.decode_append_attention`, which writes the caches that it reads.

Past and present caches are one buffer: they are declared as aliased, which takes the preview feature
``ALIASED_PLUGIN_IO_10_03`` of the builder. Queries and keys come rotated, or there are the cosines and sines of the new
positions, and the kernel turns them in halves: two plugins, since the inputs of one are fixed.
Annotations are read by TensorRT when the functions are made, and so are no strings here.

Legend: B batch, S new positions, M capacity, H query heads, G key and value heads, R = S H / G rows that share a head,
D head size, F = D / 2 angles, N splits.
"""

import tensorrt as trt
import tensorrt.plugin as trtp

from export.graph.plugin_ops import DECODE_APPEND, DECODE_APPEND_ROTARY, NAMESPACE
from export.tensorrt.plugins.embedding import launch, tiles_target
from export.tensorrt.plugins.tensor_descriptions import heads_of, type_of
from models.kernels import decode_append_attention, decode_attention

PLUGIN = f"{NAMESPACE}::{DECODE_APPEND.name}"
ROTARY_PLUGIN = f"{NAMESPACE}::{DECODE_APPEND_ROTARY.name}"
Outputs = tuple[trtp.TensorDesc, trtp.TensorDesc, trtp.TensorDesc, trtp.TensorDesc]
Launch = tuple[str, str, trtp.KernelLaunchParams, trtp.SymIntExprs]


@trtp.register(PLUGIN)
def describe_outputs(
    queries: trtp.TensorDesc,
    new_keys: trtp.TensorDesc,
    new_values: trtp.TensorDesc,
    past_keys: trtp.TensorDesc,
    past_values: trtp.TensorDesc,
    start: trtp.TensorDesc,
    rows: int,
    splits: int,
) -> tuple[trtp.TensorDesc, trtp.TensorDesc, trtp.TensorDesc, trtp.TensorDesc]:
    """Parts ``[B, G, N, R, D]`` and bases ``[B, G, N, R]``, both float32, and the caches at their own addresses."""
    return _outputs(queries, past_keys, past_values, splits)


@trtp.register(ROTARY_PLUGIN)
def described_rotary(
    queries: trtp.TensorDesc,
    new_keys: trtp.TensorDesc,
    new_values: trtp.TensorDesc,
    cosines: trtp.TensorDesc,
    sines: trtp.TensorDesc,
    past_keys: trtp.TensorDesc,
    past_values: trtp.TensorDesc,
    start: trtp.TensorDesc,
    rows: int,
    splits: int,
) -> tuple[trtp.TensorDesc, trtp.TensorDesc, trtp.TensorDesc, trtp.TensorDesc]:
    """As :func:`described`, of queries and keys not yet rotated; cosines and sines are float32 ``[B, 1, S, F]``."""
    return _outputs(queries, past_keys, past_values, splits)


@trtp.aot_impl(PLUGIN)
def implement(
    queries: trtp.TensorDesc,
    new_keys: trtp.TensorDesc,
    new_values: trtp.TensorDesc,
    past_keys: trtp.TensorDesc,
    past_values: trtp.TensorDesc,
    start: trtp.TensorDesc,
    rows: int,
    splits: int,
    outputs: tuple[trtp.TensorDesc, trtp.TensorDesc, trtp.TensorDesc, trtp.TensorDesc],
    tactic: int,
) -> tuple[str, str, trtp.KernelLaunchParams, trtp.SymIntExprs]:
    """The kernel for these heads and at most R rows, and its launch."""
    return _launch(DECODE_APPEND.name, "none", queries, past_keys, start, rows, splits)


@trtp.aot_impl(ROTARY_PLUGIN)
def implemented_rotary(
    queries: trtp.TensorDesc,
    new_keys: trtp.TensorDesc,
    new_values: trtp.TensorDesc,
    cosines: trtp.TensorDesc,
    sines: trtp.TensorDesc,
    past_keys: trtp.TensorDesc,
    past_values: trtp.TensorDesc,
    start: trtp.TensorDesc,
    rows: int,
    splits: int,
    outputs: tuple[trtp.TensorDesc, trtp.TensorDesc, trtp.TensorDesc, trtp.TensorDesc],
    tactic: int,
) -> tuple[str, str, trtp.KernelLaunchParams, trtp.SymIntExprs]:
    """The kernel for these heads, turned in halves, and at most R rows, and its launch."""
    return _launch(DECODE_APPEND_ROTARY.name, "half", queries, past_keys, start, rows, splits)


def _outputs(
    queries: trtp.TensorDesc, past_keys: trtp.TensorDesc, past_values: trtp.TensorDesc, splits: int
) -> Outputs:
    batch, heads, count, size = queries.shape_expr
    groups = past_keys.shape_expr[1]
    shape = (batch, groups, splits, heads * count // groups)
    parts = trtp.from_shape_expr((*shape, size), trt.DataType.FLOAT)
    bases = trtp.from_shape_expr(shape, trt.DataType.FLOAT)
    return parts, bases, past_keys.aliased(), past_values.aliased()


def _launch(
    plugin: str,
    layout: str,
    queries: trtp.TensorDesc,
    past_keys: trtp.TensorDesc,
    start: trtp.TensorDesc,
    rows: int,
    splits: int,
) -> Launch:
    heads = heads_of(queries, past_keys)
    kernel = decode_append_attention.specialise(heads, layout, rows, splits, tiles_target(), type_of(start))
    numbers = {"queries": queries.shape_expr[2], "capacity": past_keys.shape_expr[2]}
    return launch(plugin, kernel, decode_attention.grid(kernel, queries.shape_expr[0]), numbers)
