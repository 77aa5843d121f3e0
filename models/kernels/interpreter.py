"""Triton's interpreter, on CPU tensors: whether this process uses it, and its bfloat16 mended.

Triton decides when it is imported whether kernels are compiled or interpreted: ``TRITON_INTERPRET=1`` must stand in the
environment by then. One process does the one or the other.

Triton 3.9 interprets a product of bfloat16 matrices as one of the integers that their bits spell, and a conversion to
bfloat16 as truncation, where a GPU rounds to nearest, ties to even.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import triton
import triton.language as tl

_QUIET_NAN = 0x7FC0


def interprets() -> bool:
    return bool(triton.knobs.runtime.interpret)


@cache
def mend_bfloat16() -> None:
    """Let the interpreter multiply and round bfloat16 as a GPU does."""
    from triton.runtime import interpreter  # here, because it starts to work when it is imported

    builder_class, handle_class = interpreter.InterpreterBuilder, interpreter.TensorHandle
    multiply, cast = builder_class.create_dot, builder_class.cast_impl

    def cast_impl(builder: Any, source: Any, wanted: Any) -> Any:
        types = source.dtype.scalar, wanted.scalar
        if types == (tl.bfloat16, tl.float32):
            return handle_class((source.data.astype(np.uint32) << 16).view(np.float32), tl.float32)
        if types == (tl.float32, tl.bfloat16):
            return handle_class(_round_to_bfloat16(source.data), tl.bfloat16)
        return cast(builder, source, wanted)

    def create_dot(builder: Any, a: Any, b: Any, *others: Any) -> Any:
        # Exact: every bfloat16 is a float32, and the hardware too sums the products in float32.
        wide = [cast_impl(builder, x, tl.float32) if x.dtype.scalar == tl.bfloat16 else x for x in (a, b)]
        return multiply(builder, *wide, *others)

    builder_class.cast_impl, builder_class.create_dot = cast_impl, create_dot


def _round_to_bfloat16(numbers: npt.NDArray[np.float32]) -> npt.NDArray[np.uint16]:
    bits = np.ascontiguousarray(numbers).view(np.uint32)
    nearest = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    return np.where(np.isnan(numbers), _QUIET_NAN, nearest).astype(np.uint16)
