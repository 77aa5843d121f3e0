"""How keys and values are rounded before they are cached (:mod:`export.passes.quantise.quantise_caches`)."""

from dataclasses import dataclass

import onnx_ir as ir

from export.passes.match.head_layout import producer

NOT_SYMMETRIC = "what it caches is rounded by more than one scale, or not around 0"


@dataclass(frozen=True, slots=True)
class CacheRounding:
    """What stands before a TensorScatter that caches rounded numbers.

    Attributes:
        numbers: before they are rounded.
        integers: what they are rounded to.
        scale: of the integers.
        zero: of the integers.
        symmetric: whether one scale, around 0, is for all of them.
    """

    numbers: ir.Value
    integers: ir.Value
    scale: ir.Value
    zero: ir.Value
    symmetric: bool


def rounding_before(update: ir.Node) -> CacheRounding | None:
    """The rounding of what a TensorScatter writes; none where that is not rounded."""
    restored = producer(update.inputs[1], "DequantizeLinear")
    rounded = None if restored is None else producer(restored.inputs[0], "QuantizeLinear")
    if restored is None or rounded is None:
        return None
    numbers, scale, zero = rounded.inputs
    assert numbers is not None and scale is not None and zero is not None
    same = list(restored.inputs[1:]) == [scale, zero]
    one = scale.const_value is not None and scale.const_value.size == 1
    around_0 = zero.dtype == ir.DataType.INT8 and zero.const_value is not None and not zero.const_value.numpy().any()
    return CacheRounding(numbers, rounded.outputs[0], scale, zero, same and one and around_0)
