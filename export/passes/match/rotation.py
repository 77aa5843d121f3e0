"""How a graph spells a rotary embedding in halves: (a, b) → (a cos − b sin, b cos + a sin).

Legend: B batch, H heads, T positions, D head size.
"""

from dataclasses import dataclass

import onnx_ir as ir

from export.passes.match.head_layout import producer


@dataclass(frozen=True, slots=True)
class RotaryMatch:
    """What is turned, and by what.

    Attributes:
        heads: before, ``[B, H, T, D]``.
        cosines: ``[B, 1, T, D/2]``, or as the graph has them.
        sines: likewise.
    """

    heads: ir.Value
    cosines: ir.Value
    sines: ir.Value


def rotation_of(rotated: ir.Value | None, through_casts: bool = False) -> RotaryMatch | None:
    """The rotation that made a value; none if something else did.

    Args:
        rotated: ``[B, H, T, D]``.
        through_casts: whether sums and products may be computed in other types than they are handed on in.
    """
    halves = _producer(rotated, "Concat", through_casts)
    if halves is None or len(halves.inputs) != 2:
        return None
    minus, plus = (_producer(half, way, through_casts) for half, way in zip(halves.inputs, ("Sub", "Add"), strict=True))
    terms = [_factors(value, through_casts) for node in (minus, plus) if node is not None for value in node.inputs]
    if len(terms) != 4 or None in terms:
        return None
    (a, cos), (b, sin), (b_again, cos_again), (a_again, sin_again) = (term for term in terms if term is not None)
    split = producer(a, "Split")
    same = a is a_again and b is b_again and cos is cos_again and sin is sin_again
    if not same or split is None or list(split.outputs) != [a, b] or split.inputs[0] is None:
        return None
    return RotaryMatch(split.inputs[0], cos, sin)


def factors(value: ir.Value | None) -> tuple[ir.Value, ir.Value] | None:
    """Those of a product of two; none if it is none."""
    return _factors(value, False)


def uncast(value: ir.Value | None) -> ir.Value | None:
    """What a value was before its type was changed."""
    cast = producer(value, "Cast")
    return value if cast is None else cast.inputs[0]


def _factors(value: ir.Value | None, through_casts: bool) -> tuple[ir.Value, ir.Value] | None:
    product = _producer(value, "Mul", through_casts)
    if product is None or product.inputs[0] is None or product.inputs[1] is None:
        return None
    return product.inputs[0], product.inputs[1]


def _producer(value: ir.Value | None, operator: str, through_casts: bool) -> ir.Node | None:
    return producer(uncast(value) if through_casts else value, operator)
