"""A kernel and everything that is fixed before it is compiled, so that PyTorch and a plugin launch the same code."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import torch

from attendant.config import require

FloatType = Literal["float16", "bfloat16", "float32"]
TRITON_TYPES = {"float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "int32": "i32", "int64": "i64", "bool": "i1"}
"""PyTorch's names of types → Triton's."""
LOG2_E = 1.4426950408889634
"""log₂ e: kernels take powers of two."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Specialisation:
    """A kernel for one choice of what is fixed at compile time.

    Attributes:
        kernel: what ``triton.jit`` made.
        types: argument → Triton's type (``*fp16``, ``i32``), in the order of the arguments, which is that of TensorRT's
            ahead-of-time plugins: inputs, int32 numbers, outputs.
        constants: every other argument.
        warps: 32 threads each, of one block; of a kernel in Gluon, those of its first partition.
        stages: how many tiles a loop loads ahead.
        boxes: argument ``[B, H, S, D]`` → the box ``[1, rows, D]`` that TMA moves of its matrices: the kernel gets a
            descriptor in its place, which Triton's launcher makes and nobody else.
        registers: of each thread at launch; the compiler's choice if not given.
        overlaps: whether it is launched before the launch before it has ended, for which it waits itself.
    """

    kernel: Any
    types: Mapping[str, str]
    constants: Mapping[str, Any]
    warps: int
    stages: int
    boxes: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)
    registers: int | None = None
    overlaps: bool = False


def pointer(dtype: str) -> str:
    """Triton's type of a pointer to PyTorch's type: ``float16`` → ``*fp16``."""
    return f"*{TRITON_TYPES[dtype]}"


def type_name(dtype: torch.dtype) -> str:
    """PyTorch's name of a type, without its package."""
    return str(dtype).removeprefix("torch.")


def require_float_type(dtype: str) -> None:
    """Refuse what kernels do not compute in.

    Raises:
        ConfigError: any other type.
    """
    require(dtype in get_args(FloatType), f"one of {get_args(FloatType)}", repr(dtype), "convert the tensors")


def product_precision(dtype: str) -> str:
    """How ``tl.dot`` multiplies: float32 in three TF32 products, which keep its 23 bits; others as they are."""
    return "tf32x3" if dtype == "float32" else "ieee"


def power_of_two(least: int, of: int) -> int:
    """The smallest power of two that is at least both."""
    return max(least, 1 << (of - 1).bit_length())


def quotient_up(dividend: int, divisor: int) -> int:
    """⌈dividend / divisor⌉, in operations that TensorRT's symbolic sizes have too."""
    return (dividend + (divisor - 1)) // divisor
