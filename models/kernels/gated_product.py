"""Scale one half of a product's columns by the activated other half, in one launch.

    out[n, f] = SiLU(x[n, f]) · x[n, F + f]        SiLU(a) = a / (1 + e^(−a))

Computed in float32, rounded once. The plain twin is models/layers/mlp.py.

Legend: N rows, F columns of the result.
Source: Shazeer 2020, "GLU Variants Improve Transformer", section 2.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from attendant.config import require
from models.kernel_configs.specialisation import Specialisation, pointer, quotient_up, require_float_type, type_name
from models.kernels.launch import launch

_COLUMNS = 1024


@triton.jit
def gated_product_kernel(x: tl.tensor, width: tl.tensor, out: tl.tensor, BLOCK_F: tl.constexpr) -> None:
    """See the module; ``x`` is ``[N, 2 F]``, ``width`` is F."""
    row, f_F = tl.program_id(0).to(tl.int64), tl.program_id(1) * BLOCK_F + tl.arange(0, BLOCK_F)
    gate_F = tl.load(x + row * 2 * width + f_F, mask=f_F < width, other=0.0).to(tl.float32)
    scaled_F = tl.load(x + row * 2 * width + width + f_F, mask=f_F < width, other=0.0).to(tl.float32)
    product_F = gate_F / (1.0 + tl.exp(-gate_F)) * scaled_F
    tl.store(out + row * width + f_F, product_F.to(out.dtype.element_ty), mask=f_F < width)


def specialise(dtype: str) -> Specialisation:
    """The kernel for one type.

    Raises:
        ConfigError: another type than float16, bfloat16 or float32.
    """
    require_float_type(dtype)
    types = {"x": pointer(dtype), "width": "i32", "out": pointer(dtype)}
    return Specialisation(kernel=gated_product_kernel, types=types, constants={"BLOCK_F": _COLUMNS}, warps=4, stages=1)


def gated_product(gate: Tensor, scaled: Tensor) -> Tensor:
    """SiLU of one half, times the other.

    Args:
        gate: ``[…, F]``.
        scaled: the same; both are halves of one contiguous tensor ``[…, 2 F]``, in this order.

    Returns:
        ``[…, F]``.

    Raises:
        ConfigError: they are not, or there is no kernel for their type.
        MachineError: the device cannot run kernels in this process.
    """
    width, shape = gate.shape[-1], (*gate.shape[:-1], 2 * gate.shape[-1])
    follows = gate.shape == scaled.shape and scaled.data_ptr() == gate.data_ptr() + width * gate.element_size()
    halves = follows and gate.stride() == scaled.stride() == torch.empty(shape, device="meta").stride()
    require(halves, "halves of one tensor", f"strides {gate.stride()} and {scaled.stride()}")
    out, grid = gate.new_empty(gate.shape), (gate.numel() // width, quotient_up(width, _COLUMNS))
    whole = gate.as_strided(shape, gate.stride())
    launch(specialise(type_name(gate.dtype)), grid, {"x": whole, "width": width, "out": out})
    return out
