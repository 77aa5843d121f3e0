"""Constraints on layers other than attention: recurrent ones, norms, pooling, resizing, reductions, constants."""

import numpy as np

from export.targets.constraints.forms import (
    all_ones,
    attribute_in,
    constant_input,
    of_nodes,
    ranks,
    shape_text,
    without_inputs,
    without_outputs,
)
from export.targets.constraints.graph import Graph, Node
from export.targets.constraints.sources import OPENVINO, PARSER, TABLE

_RECURRENT = frozenset({"RNN", "LSTM", "GRU"})
_POOLS = frozenset({"AveragePool", "MaxPool"})
_REDUCTIONS = frozenset(
    f"Reduce{way}" for way in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
)
_TRANSFORMATIONS = ("half_pixel", "pytorch_half_pixel", "tf_half_pixel_for_nn", "asymmetric", "align_corners")
_NEAREST = ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")
_MOST_OF_TOP_K = 3840
_UNREAD_VALUES = frozenset({"sparse_value", "value_string", "value_strings"})
_RESIZE = frozenset({"Resize"})


without_outputs("layer-norm-outputs", {"LayerNormalization"}, 1, TABLE)
attribute_in("recurrent-layout", _RECURRENT, "layout", (0,), TABLE, default=0)
without_inputs("recurrent-lengths", _RECURRENT, {4: "sequence_lens"}, f"{OPENVINO}: shorter rows came out wrong")
attribute_in("lstm-input-forget", {"LSTM"}, "input_forget", (0,), TABLE, default=0)
attribute_in("resize-antialias", _RESIZE, "antialias", (0,), TABLE, default=0)
attribute_in("resize-transformation", _RESIZE, "coordinate_transformation_mode", _TRANSFORMATIONS, TABLE)
attribute_in("resize-mode", _RESIZE, "mode", ("nearest", "linear"), TABLE)
attribute_in("resize-nearest", _RESIZE, "nearest_mode", _NEAREST, TABLE)
attribute_in("resize-aspect", _RESIZE, "keep_aspect_ratio_policy", ("stretch",), TABLE)
ranks("pool-rank", _POOLS, {0: "the input"}, (4, 5), TABLE)
all_ones("pool-dilations", _POOLS | {"LpPool"}, "dilations", TABLE)
without_outputs("max-pool-indices", {"MaxPool"}, 1, TABLE)
constant_input("reduce-axes", _REDUCTIONS, 1, "axes", TABLE)
constant_input("squeeze-axes", {"Squeeze", "Unsqueeze"}, 1, "axes", TABLE)
constant_input("cumsum-axis", {"CumSum"}, 1, "axis", TABLE)
constant_input("one-hot-depth", {"OneHot"}, 1, "depth", TABLE)
attribute_in("top-k-sorted", {"TopK"}, "sorted", (1,), TABLE, default=1)
attribute_in("scatter-reduction", {"ScatterND"}, "reduction", ("none",), TABLE, default="none")
ranks("grid-sample-rank", {"GridSample"}, {0: "the input"}, (4, 5), TABLE)


@of_nodes("recurrent-activations", _RECURRENT, "GRU, LSTM, RNN: both directions have the same activations", TABLE)
def recurrent_activations(graph: Graph, node: Node) -> str | None:
    names = list(node.attribute("activations", ()))
    if node.attribute("direction", "forward") != "bidirectional" or len(names) % 2:
        return None
    half = len(names) // 2
    return (
        None
        if names[:half] == names[half:]
        else f"activations {[name.decode() if isinstance(name, bytes) else name for name in names]}"
    )


@of_nodes(
    "recurrent-type",
    _RECURRENT,
    "GRU, LSTM, RNN: in float32",
    f"{PARSER}: an initial state that is left out, and constants of a GRU, are float32",
)
def recurrent_type(graph: Graph, node: Node) -> str | None:
    dtype = graph.dtype(node.input(0))
    return None if dtype in {"", "float32"} else dtype


@of_nodes("rotary-positions", {"RotaryEmbedding"}, "RotaryEmbedding: position_ids are int64", TABLE)
def rotary_positions(graph: Graph, node: Node) -> str | None:
    tensor = node.input(3)
    return None if not tensor or graph.dtype(tensor) == "int64" else f"position_ids of type {graph.dtype(tensor)}"


@of_nodes("dropout-training", {"Dropout"}, "Dropout: training_mode is a constant and false", TABLE)
def dropout_training(graph: Graph, node: Node) -> str | None:
    tensor = node.input(2)
    value = graph.constant(tensor)
    off = not tensor or (value is not None and not np.any(value))
    return None if off else f"training_mode = {tensor if value is None else bool(np.any(value))}"


@of_nodes("top-k-count", {"TopK"}, f"TopK: K is less than {_MOST_OF_TOP_K}", TABLE)
def top_k_count(graph: Graph, node: Node) -> str | None:
    value = graph.constant(node.input(1))
    return None if value is None or np.max(value) < _MOST_OF_TOP_K else f"K = {int(np.max(value))}"


@of_nodes("eye-like-shape", {"EyeLike"}, "EyeLike: the input's axes are fixed", TABLE)
def eye_like_shape(graph: Graph, node: Node) -> str | None:
    axes = graph.axes(node.input(0))
    return None if axes is not None and all(isinstance(axis, int) for axis in axes) else f"input {shape_text(axes)}"


@of_nodes("hardmax-axis", {"Hardmax"}, "Hardmax: the axis is fixed", TABLE)
def hardmax_axis(graph: Graph, node: Node) -> str | None:
    axes, axis = graph.axes(node.input(0)), node.attribute("axis", -1)
    return None if axes is not None and isinstance(axes[axis], int) else f"input {shape_text(axes)}, axis {axis}"


@of_nodes("constant-value", {"Constant"}, "Constant: a tensor or numbers; no text, nothing sparse", TABLE)
def constant_value(graph: Graph, node: Node) -> str | None:
    kinds = sorted({attribute.name for attribute in node.proto.attribute} & _UNREAD_VALUES)
    return f"attribute {kinds[0]}" if kinds else None
