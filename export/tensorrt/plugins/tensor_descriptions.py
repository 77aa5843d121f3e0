"""What plugins read of TensorRT's descriptions of tensors: types in PyTorch's words, and sizes that do not vary."""

from __future__ import annotations

import math
from typing import Any

import tensorrt as trt

from attendant.errors import ExportError
from models.kernel_configs.heads import HeadsConfig

_NAMES = {"FLOAT": "float32", "HALF": "float16", "BF16": "bfloat16", "INT32": "int32", "INT64": "int64"}
_OF_ONNX = {1: "FLOAT", 10: "HALF", 16: "BF16"}


def type_of(description: Any) -> str:
    """The element type in PyTorch's words.

    Raises:
        ExportError: no kernel computes with it.
    """
    if description.dtype.name not in _NAMES:
        raise ExportError(f"one of {', '.join(_NAMES)}", description.dtype.name, "convert the tensor in the graph")
    return _NAMES[description.dtype.name]


def type_of_onnx(element_type: int) -> Any:
    """TensorRT's type for ONNX's number of it."""
    return getattr(trt.DataType, _OF_ONNX[element_type])


def fixed_size(description: Any, axis: int) -> int:
    """The size of an axis.

    Raises:
        ExportError: it varies.
    """
    size = int(description.shape[axis])
    if size < 0:
        raise ExportError("a size that the graph states", f"axis {axis} varies", "export it with a fixed size")
    return size


def heads_of(queries: Any, keys: Any) -> HeadsConfig:
    """The heads of queries ``[B, H, S, D]`` and keys ``[B, G, M, D]``; the scale is 1/√D.

    Raises:
        ConfigError: there is no kernel for them.
        ExportError: their number or size varies.
    """
    size = fixed_size(queries, 3)
    return HeadsConfig(
        heads=fixed_size(queries, 1),
        kv_heads=fixed_size(keys, 1),
        head_size=size,
        dtype=type_of(queries),
        scale=1 / math.sqrt(size),
    )
