"""The plugin of :mod:`models.kernels.flash_attention`: many queries at once, causal or not.

Annotations are read by TensorRT when the functions are made, and so are no strings here.

Legend: B batch, S queries, M capacity of keys, H query heads, G key and value heads, D head size.
"""

import tensorrt.plugin as trtp

from export.graph.plugin_ops import FLASH, NAMESPACE
from export.tensorrt.plugins.embedding import launch, tiles_target
from export.tensorrt.plugins.tensor_descriptions import heads_of, type_of
from models.kernels import flash_attention

PLUGIN = f"{NAMESPACE}::{FLASH.name}"


@trtp.register(PLUGIN)
def describe_outputs(
    queries: trtp.TensorDesc, keys: trtp.TensorDesc, values: trtp.TensorDesc, lengths: trtp.TensorDesc, causal: int
) -> trtp.TensorDesc:
    """``[B, H, S, D]`` as the queries."""
    return queries.like()


@trtp.aot_impl(PLUGIN)
def implement(
    queries: trtp.TensorDesc,
    keys: trtp.TensorDesc,
    values: trtp.TensorDesc,
    lengths: trtp.TensorDesc,
    causal: int,
    outputs: tuple[trtp.TensorDesc],
    tactic: int,
) -> tuple[str, str, trtp.KernelLaunchParams, trtp.SymIntExprs]:
    """The kernel for these heads, and its launch."""
    heads = heads_of(queries, keys)
    kernel = flash_attention.specialise(heads, bool(causal), tiles_target(), type_of(lengths))
    batch, count, capacity = queries.shape_expr[0], queries.shape_expr[2], keys.shape_expr[2]
    grid = flash_attention.grid(kernel, batch, count)
    return launch(FLASH.name, kernel, grid, {"queries": count, "capacity": capacity})
