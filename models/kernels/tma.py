"""What TMA moves between global and shared memory: boxes of ``[1, rows, D]`` of matrices in half precision.

Shared memory has them swizzled by 128 bytes, as wgmma reads them. A box that reaches past a matrix is filled with
zeros, and nothing is written there.

Source: CUDA driver API 13, ``cuTensorMapEncodeTiled``; PTX ISA 9, "Tensors".
"""

from __future__ import annotations

from typing import Any

from torch import Tensor
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

__all__ = ["GluonASTSource", "describe_tensor", "descriptor_type"]
Box = tuple[int, int, int]
_SWIZZLED = gl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, rank=3)


def describe_tensor(tensor: Tensor, box: Box) -> Any:
    """The descriptor of a contiguous tensor ``[B, H, S, D]`` as B·H matrices; its address is a multiple of 16."""
    matrices = tensor.flatten(0, 1)
    return TensorDescriptor(matrices, list(matrices.shape), list(matrices.stride()), list(box), _SWIZZLED)


def descriptor_type(element: str, box: Box) -> str:
    """Triton's type of such a descriptor; ``element`` is that of the tensor's pointer, ``*fp16``."""
    return f"tensordesc<{element.removeprefix('*')}{list(box)},{_SWIZZLED!r}>"
