"""The passes from a standard graph to the form that TensorRT's parser takes, in order."""

from export.graph.rewrite import Rewrite
from export.passes.tensorrt.allow_decomposition import AllowDecomposition
from export.passes.tensorrt.drop_softmax_precision import DropSoftmaxPrecision
from export.passes.tensorrt.scale_queries import ScaleQueries
from export.passes.tensorrt.widen_recurrence import WidenRecurrence

TENSORRT = "tensorrt"
"""The target whose form it is."""
PASSES: tuple[Rewrite, ...] = (
    DropSoftmaxPrecision(),
    ScaleQueries(),
    WidenRecurrence(),
    AllowDecomposition(),  # the last: from here on the graph is no longer of the standard
)
