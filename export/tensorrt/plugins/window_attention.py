"""The plugins of :mod:`models.kernels.window_attention`: products (Swin) and scaled cosines (SwinV2).

Annotations are read by TensorRT when the functions are made, and so are no strings here.

Legend: B batch, h and w sides of a map, C = H D channels, H heads, D head size, W side of a window, O = (2W − 1)².
"""

from typing import Any

import tensorrt.plugin as trtp

from export.graph.plugin_ops import COSINE_WINDOW, NAMESPACE, WINDOW
from export.tensorrt.plugins.embedding import Launch, launch, tiles_target
from export.tensorrt.plugins.tensor_descriptions import fixed_size, type_of
from models.kernel_configs.window_tiles import WindowConfig
from models.kernels import window_attention

PLUGIN = f"{NAMESPACE}::{WINDOW.name}"
COSINE_PLUGIN = f"{NAMESPACE}::{COSINE_WINDOW.name}"


@trtp.register(PLUGIN)
def describe_outputs(
    queries: trtp.TensorDesc,
    keys: trtp.TensorDesc,
    values: trtp.TensorDesc,
    table: trtp.TensorDesc,
    window: int,
    shift: int,
) -> trtp.TensorDesc:
    """The map ``[B, h, w, C]``, as the queries; the table is ``[H, O]``."""
    return queries.like()


@trtp.aot_impl(PLUGIN)
def implement(
    queries: trtp.TensorDesc,
    keys: trtp.TensorDesc,
    values: trtp.TensorDesc,
    table: trtp.TensorDesc,
    window: int,
    shift: int,
    outputs: tuple[trtp.TensorDesc],
    tactic: int,
) -> tuple[str, str, trtp.KernelLaunchParams, trtp.SymIntExprs]:
    """The kernel for these windows, and its launch."""
    return _launch(WINDOW.name, queries, table, window, shift, cosine=False)


@trtp.register(COSINE_PLUGIN)
def cosine_described(
    queries: trtp.TensorDesc,
    keys: trtp.TensorDesc,
    values: trtp.TensorDesc,
    table: trtp.TensorDesc,
    scales: trtp.TensorDesc,
    window: int,
    shift: int,
) -> trtp.TensorDesc:
    """The map ``[B, h, w, C]``, as the queries; the scales are float32 ``[H]``."""
    return queries.like()


@trtp.aot_impl(COSINE_PLUGIN)
def cosine_implemented(
    queries: trtp.TensorDesc,
    keys: trtp.TensorDesc,
    values: trtp.TensorDesc,
    table: trtp.TensorDesc,
    scales: trtp.TensorDesc,
    window: int,
    shift: int,
    outputs: tuple[trtp.TensorDesc],
    tactic: int,
) -> tuple[str, str, trtp.KernelLaunchParams, trtp.SymIntExprs]:
    """The kernel for these windows, and its launch."""
    return _launch(COSINE_WINDOW.name, queries, table, window, shift, cosine=True)


def _launch(plugin: str, queries: Any, table: Any, window: int, shift: int, cosine: bool) -> Launch:
    heads = fixed_size(table, 0)
    config = WindowConfig.of(fixed_size(queries, 3) // heads, heads, window, shift, cosine, None, type_of(queries))
    kernel = window_attention.specialise(config, tiles_target())
    batch, height, width, _ = queries.shape_expr
    grid = window_attention.grid(kernel, batch, height, width)
    return launch(plugin, kernel, grid, {"height": height, "width": width})
