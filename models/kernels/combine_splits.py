"""The second step of decode attention: splits of a row, weighed by what each of them has seen.

    out = Σ_j 2^base[j] part[j] / Σ_j 2^base[j]

One program a query row.

Legend: B batch, G key and value heads, R rows that share one, D head size, N splits.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from models.kernel_configs.specialisation import Specialisation, pointer, power_of_two, require_float_type, type_name
from models.kernels.launch import Arguments, launch, require_shape


@triton.jit
def combine_splits_kernel(
    parts: tl.tensor,
    bases: tl.tensor,
    rows: tl.tensor,
    out: tl.tensor,
    HEAD_SIZE: tl.constexpr,
    SPLITS: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_D: tl.constexpr,
) -> None:
    """See the module; ``parts`` is ``[B, G, N, R, D]``, ``bases`` ``[B, G, N, R]``, ``out`` ``[B, G, R, D]``."""
    row = tl.program_id(0).to(tl.int64)
    n_N, d_D = tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_D)
    part_N = (row // rows * SPLITS + n_N) * rows + row % rows
    base_N = tl.load(bases + part_N, mask=n_N < SPLITS, other=-float("inf"))
    highest = tl.max(base_N, 0)
    weight_N = tl.exp2(base_N - tl.where(highest == -float("inf"), 0.0, highest))
    shown_ND = (n_N < SPLITS)[:, None] & (d_D < HEAD_SIZE)[None, :]
    part_ND = tl.load(parts + part_N[:, None] * HEAD_SIZE + d_D[None, :], mask=shown_ND, other=0.0)
    total = tl.sum(weight_N, 0)
    mean_D = tl.sum(weight_N[:, None] * part_ND, 0) / tl.where(total == 0.0, 1.0, total)
    tl.store(out + row * HEAD_SIZE + d_D, mean_D.to(out.dtype.element_ty), mask=d_D < HEAD_SIZE)


def specialise(head_size: int, splits: int, dtype: str) -> Specialisation:
    """The kernel for heads of one size.

    Raises:
        ConfigError: no kernel writes that type.
    """
    require_float_type(dtype)
    block_n, block_d = power_of_two(1, splits), power_of_two(1, head_size)
    return Specialisation(
        kernel=combine_splits_kernel,
        types={"parts": "*fp32", "bases": "*fp32", "rows": "i32", "out": pointer(dtype)},
        constants={
            "HEAD_SIZE": head_size,
            "SPLITS": splits,
            "BLOCK_N": block_n,
            "BLOCK_D": block_d,
        },
        warps=4 if block_n * block_d <= 16384 else 8,
        stages=1,
    )


def grid(batch: int, kv_heads: int, rows: int) -> tuple[int]:
    """Blocks along each axis; batch and rows may be TensorRT's symbols."""
    return (batch * kv_heads * rows,)


def combine_splits(parts: Tensor, bases: Tensor, out: Tensor) -> Tensor:
    """Combine.

    Args:
        parts: float32 ``[B, G, N, R, D]``.
        bases: float32 ``[B, G, N, R]``; −∞ of a split that has seen nothing.
        out: ``[B, H, S, D]`` with H S = G R, which is written.

    Returns:
        ``out``; zeros where no split has seen anything.

    Raises:
        InputError: shapes, types, devices or layouts do not fit each other.
        MachineError: the device cannot run kernels in this process.
    """
    batch, kv_heads, splits, rows, size = parts.shape
    require_shape("bases", bases, (batch, kv_heads, splits, rows))
    specialisation = specialise(size, splits, type_name(out.dtype))
    arguments: Arguments = {"parts": parts, "bases": bases, "rows": rows, "out": out}
    launch(specialisation, grid(batch, kv_heads, rows), arguments)
    return out
