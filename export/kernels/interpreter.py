"""Triton's interpreter, on CPU tensors: whether this process uses it, and a fault of it mended.

Triton decides when it is imported whether kernels are compiled or interpreted: ``TRITON_INTERPRET=1`` must stand in the
environment by then. One process does the one or the other.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import triton
import triton.language as tl


def interprets() -> bool:
    """Whether this process interprets kernels."""
    return bool(triton.knobs.runtime.interpret)


@cache
def mend_products() -> None:
    """Let the interpreter multiply matrices of bfloat16, whose bits Triton 3.9 multiplies as if they were integers."""
    from triton.runtime import interpreter  # here, because it starts to work when it is imported

    faulty = interpreter.InterpreterBuilder.create_dot

    def create_dot(builder: Any, a: Any, b: Any, *others: Any) -> Any:
        return faulty(builder, _widened(builder, a), _widened(builder, b), *others)

    interpreter.InterpreterBuilder.create_dot = create_dot


def _widened(builder: Any, operand: Any) -> Any:
    # Exact: every bfloat16 is a float32, and the products are summed in float32 by the hardware too.
    if operand.dtype.scalar != tl.bfloat16:
        return operand
    return builder.create_fp_ext(operand, tl.block_type(tl.float32, list(operand.data.shape)))
