"""A constant in a narrower floating type."""

import numpy as np
import onnx_ir as ir

_LOST = 0.05
"""The relative error from which a single number counts as one that a type has not."""


def narrow_tensor(tensor: ir.TensorProtocol, dtype: ir.DataType, name: str) -> ir.TensorProtocol:
    """The nearest numbers; finite ones beyond the type's range become its largest, as the −3.4 · 10³⁸ of a mask."""
    most = float(dtype.max)
    numbers = tensor.numpy()
    bounded = np.where(np.isfinite(numbers), np.clip(numbers, -most, most), numbers)
    return ir.tensor(bounded.astype(dtype.numpy()), dtype=dtype, name=name)


def lost_number(tensor: ir.TensorProtocol, dtype: ir.DataType) -> float | None:
    """A single small number that the type has not, as an epsilon of 10⁻¹²; none otherwise."""
    if tensor.size != 1:
        return None
    number = float(tensor.numpy().reshape(()))
    narrow = float(narrow_tensor(tensor, dtype, "").numpy().reshape(()).astype(np.float64))
    return number if 0 < abs(number) < 1 and abs(narrow - number) > _LOST * abs(number) else None
