"""The plugin of :mod:`models.kernels.additive_attention`: Bahdanau's scores, weights and context.

Annotations are read by TensorRT when the functions are made, and so are no strings here.

Legend: B batch, S source positions, C width of an annotation, A width of the alignment network.
"""

import tensorrt.plugin as trtp

from export.graph.plugin_ops import ADDITIVE, NAMESPACE
from export.tensorrt.plugins.embedding import launch
from export.tensorrt.plugins.tensor_descriptions import fixed_size, type_of
from models.kernels import additive_attention

PLUGIN = f"{NAMESPACE}::{ADDITIVE.name}"


@trtp.register(PLUGIN)
def describe_outputs(
    query: trtp.TensorDesc,
    keys: trtp.TensorDesc,
    score: trtp.TensorDesc,
    annotations: trtp.TensorDesc,
    mask: trtp.TensorDesc,
    longest: int,
) -> tuple[trtp.TensorDesc, trtp.TensorDesc]:
    """The context ``[B, C]`` and the weights ``[B, S]``, of the keys' type."""
    batch, source, _ = keys.shape_expr
    context = trtp.from_shape_expr((batch, annotations.shape_expr[2]), keys.dtype)
    return context, trtp.from_shape_expr((batch, source), keys.dtype)


@trtp.aot_impl(PLUGIN)
def implement(
    query: trtp.TensorDesc,
    keys: trtp.TensorDesc,
    score: trtp.TensorDesc,
    annotations: trtp.TensorDesc,
    mask: trtp.TensorDesc,
    longest: int,
    outputs: tuple[trtp.TensorDesc, trtp.TensorDesc],
    tactic: int,
) -> tuple[str, str, trtp.KernelLaunchParams, trtp.SymIntExprs]:
    """The kernel for sources of at most that length, and its launch."""
    kernel = additive_attention.specialise(fixed_size(keys, 2), fixed_size(annotations, 2), longest, type_of(keys))
    batch, source = keys.shape_expr[0], keys.shape_expr[1]
    return launch(ADDITIVE.name, kernel, additive_attention.grid(batch), {"source": source})
