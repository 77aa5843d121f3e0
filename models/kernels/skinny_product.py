"""A product of one or two rows, with the norm before it and the gate or the residual behind it, in one launch.

    out[n, f] = Σ_e norm(x[n])[e] W[f, e] + b[f]   (+ residual[n, f])
    gated: out[n, f] = SiLU(Σ_e norm(x[n])[e] W[f, e]) · Σ_e norm(x[n])[e] W[F + f, e]

Such a product takes as long as its weights take to come from memory, and a step of a decoder is a hundred of them. So a
program asks for its weights before it waits for the launch before it, which made x (programmatic dependent launch, from
compute capability 9.0 on): memory has something to do while one launch ends and the next begins.

Sums are float32; what torch would round in between (a normed row, a product before its gate or its residual) is rounded
to the type of x here too.

Legend: N rows, E numbers of a row, F columns of the result.
Source: CUDA C++ Programming Guide 13, "Programmatic Dependent Launch and Synchronization"; the norms as in
models/layers/norm.py, the gate as in models/layers/mlp.py, which is the plain twin.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor, nn
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from attendant.config import require
from models.kernel_configs.gpu_targets import GpuTarget, target_of
from models.kernel_configs.specialisation import (
    Specialisation,
    pointer,
    power_of_two,
    quotient_up,
    require_float_type,
    type_name,
)
from models.kernels.launch import Arguments, launch, require_shape
from models.layers.norm import Norm

MOST_ROWS = 2
"""Of more, the library's product is as fast: cores that multiply without matrix units fall behind memory."""
_COLUMNS, _BYTES = 2, 4096
"""Of a program's tile of weights: its rows, and the bytes of each at most."""


@triton.jit
def load_weights(first_F: tl.tensor, e_E: tl.tensor, inside_F: tl.tensor, WIDTH: tl.constexpr) -> tl.tensor:
    """A tile of rows that begin at ``first_F``; read once, so that caches need not keep it."""
    shown_FE = inside_F[:, None] & (e_E < WIDTH)[None, :]
    return tl.load(first_F[:, None] + e_E[None, :], mask=shown_FE, other=0.0, eviction_policy="evict_first")


@triton.jit
def load_part(row: tl.tensor, e_E: tl.tensor, WIDTH: tl.constexpr) -> tl.tensor:
    """A part of a row, in float32; zeros behind its end."""
    return tl.load(row + e_E, mask=e_E < WIDTH, other=0.0).to(tl.float32)


@triton.jit
def statistics(
    row: tl.tensor, NORM: tl.constexpr, EPS: tl.constexpr, WIDTH: tl.constexpr, BLOCK_E: tl.constexpr
) -> tl.tensor:
    """What a norm takes from every number of a row, and what it multiplies them by."""
    mean, squares = 0.0, 0.0
    if NORM == "layer":
        for begin in tl.static_range(0, WIDTH, BLOCK_E):
            mean += tl.sum(load_part(row, begin + tl.arange(0, BLOCK_E), WIDTH), 0) / WIDTH
    for begin in tl.static_range(0, WIDTH, BLOCK_E):
        e_E = begin + tl.arange(0, BLOCK_E)
        centred_E = tl.where(e_E < WIDTH, load_part(row, e_E, WIDTH) - mean, 0.0)
        squares += tl.sum(centred_E * centred_E, 0)
    return mean, tl.rsqrt(squares / WIDTH + EPS)


@triton.jit
def add_products(
    sum_NF: tl.tensor,
    w_FE: tl.tensor,
    x: tl.tensor,
    gain: tl.tensor,
    shift: tl.tensor,
    mean_N: tl.tensor,
    scale_N: tl.tensor,
    e_E: tl.tensor,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
    NORM: tl.constexpr,
) -> tl.tensor:
    """Add a tile's products with each row, normed."""
    n_N = tl.arange(0, ROWS)
    for row in tl.static_range(ROWS):
        x_E = load_part(x + row * WIDTH, e_E, WIDTH)
        if NORM != "none":
            mean = tl.sum(tl.where(n_N == row, mean_N, 0.0), 0)
            scale = tl.sum(tl.where(n_N == row, scale_N, 0.0), 0)
            x_E = (x_E - mean) * scale * load_part(gain, e_E, WIDTH)
            if NORM == "layer":
                x_E += load_part(shift, e_E, WIDTH)
            x_E = x_E.to(x.dtype.element_ty).to(tl.float32)
        sum_F = tl.sum(w_FE.to(tl.float32) * x_E[None, :], 1)
        sum_NF += tl.where((n_N == row)[:, None], sum_F[None, :], 0.0)
    return sum_NF


@triton.jit
def skinny_product_kernel(
    x: tl.tensor,
    gain: tl.tensor,
    shift: tl.tensor,
    weight: tl.tensor,
    bias: tl.tensor,
    residual: tl.tensor,
    columns: tl.tensor,
    out: tl.tensor,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
    NORM: tl.constexpr,
    EPS: tl.constexpr,
    HAS_BIAS: tl.constexpr,
    HAS_RESIDUAL: tl.constexpr,
    GATED: tl.constexpr,
    OVERLAPS: tl.constexpr,
    BLOCK_F: tl.constexpr,
    BLOCK_E: tl.constexpr,
) -> None:
    """See the module; ``x`` is ``[N, E]``, ``weight`` ``[F, E]`` or, of a gated product, ``[2 F, E]``."""
    f_F, e_E, n_N = tl.program_id(0) * BLOCK_F + tl.arange(0, BLOCK_F), tl.arange(0, BLOCK_E), tl.arange(0, ROWS)
    inside_F = f_F < columns
    first_F = weight + f_F.to(tl.int64) * WIDTH
    second_F = weight + (f_F + columns).to(tl.int64) * WIDTH
    w_FE = load_weights(first_F, e_E, inside_F, WIDTH)
    if GATED:
        scaled_FE = load_weights(second_F, e_E, inside_F, WIDTH)
    if OVERLAPS:
        gdc_wait()
        gdc_launch_dependents()
    mean_N, scale_N = tl.zeros([ROWS], tl.float32), tl.zeros([ROWS], tl.float32)
    if NORM != "none":
        for row in tl.static_range(ROWS):
            mean, scale = statistics(x + row * WIDTH, NORM, EPS, WIDTH, BLOCK_E)
            mean_N, scale_N = tl.where(n_N == row, mean, mean_N), tl.where(n_N == row, scale, scale_N)
    sum_NF, scaled_NF = tl.zeros([ROWS, BLOCK_F], tl.float32), tl.zeros([ROWS, BLOCK_F], tl.float32)
    for begin in tl.static_range(0, WIDTH, BLOCK_E):
        e_E = begin + tl.arange(0, BLOCK_E)
        if begin > 0:
            w_FE = load_weights(first_F, e_E, inside_F, WIDTH)
        sum_NF = add_products(sum_NF, w_FE, x, gain, shift, mean_N, scale_N, e_E, WIDTH, ROWS, NORM)
        if GATED:
            if begin > 0:
                scaled_FE = load_weights(second_F, e_E, inside_F, WIDTH)
            scaled_NF = add_products(scaled_NF, scaled_FE, x, gain, shift, mean_N, scale_N, e_E, WIDTH, ROWS, NORM)
    rounded = out.dtype.element_ty
    if HAS_BIAS:
        sum_NF += tl.load(bias + f_F, mask=inside_F, other=0.0).to(tl.float32)[None, :]
        if GATED:
            scaled_NF += tl.load(bias + columns + f_F, mask=inside_F, other=0.0).to(tl.float32)[None, :]
    sum_NF = sum_NF.to(rounded).to(tl.float32)
    if GATED:
        sum_NF = sum_NF / (1.0 + tl.exp(-sum_NF)) * scaled_NF.to(rounded).to(tl.float32)
    place_NF = n_N[:, None] * columns + f_F[None, :]
    shown_NF = (n_N < ROWS)[:, None] & inside_F[None, :]
    if HAS_RESIDUAL:
        sum_NF += tl.load(residual + place_NF, mask=shown_NF, other=0.0).to(tl.float32)
    tl.store(out + place_NF, sum_NF.to(rounded), mask=shown_NF)


def specialise(
    width: int,
    rows: int,
    dtype: str,
    target: GpuTarget,
    norm: tuple[Norm, float] | None = None,
    bias: bool = False,
    residual: bool = False,
    gated: bool = False,
) -> Specialisation:
    """The kernel for rows of one width.

    Args:
        width: E.
        rows: N.
        dtype: of all tensors.
        target: what it will run on.
        norm: of the rows, and its ε; none if not given.
        bias: whether there is one.
        residual: whether one is added.
        gated: whether half of the columns are gates of the others.

    Raises:
        ConfigError: another type than float16, bfloat16 or float32, or more rows than :data:`MOST_ROWS`.
    """
    require_float_type(dtype)
    require(1 <= rows <= MOST_ROWS, f"1 to {MOST_ROWS} rows", rows)
    kind, eps = ("none", 0.0) if norm is None else norm
    given = {
        "x": True,
        "gain": kind != "none",
        "shift": kind == "layer",
        "weight": True,
        "bias": bias,
        "residual": residual,
    }
    return Specialisation(
        kernel=skinny_product_kernel,
        types={
            **{name: pointer(dtype) for name, is_given in given.items() if is_given},
            "columns": "i32",
            "out": pointer(dtype),
        },
        constants={
            **{name: None for name, is_given in given.items() if not is_given},
            "WIDTH": width,
            "ROWS": rows,
            "NORM": kind,
            "EPS": eps,
            "HAS_BIAS": bias,
            "HAS_RESIDUAL": residual,
            "GATED": gated,
            "OVERLAPS": target.capability >= 90,
            "BLOCK_F": _COLUMNS,
            "BLOCK_E": min(power_of_two(1, width), _BYTES // (4 if dtype == "float32" else 2)),
        },
        warps=4,
        stages=1,
        overlaps=target.capability >= 90,
    )


def skinny_product(
    inputs: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    norm: nn.LayerNorm | nn.RMSNorm | None = None,
    residual: Tensor | None = None,
    gated: bool = False,
) -> Tensor:
    """Multiply one or two rows by a matrix.

    Args:
        inputs: ``[…, E]``, contiguous, of N rows.
        weight: ``[F, E]``; if gated ``[2 F, E]``, the gates' rows first.
        bias: a number for each row of the weight.
        norm: of the inputs, over E, with its gain (and shift).
        residual: ``[…, F]``, added to the result.
        gated: whether the result is SiLU of one half, times the other; without a residual.

    Returns:
        ``[…, F]``.

    Raises:
        ConfigError: there is no kernel for so many rows, or their type.
        InputError: shapes, types, devices or layouts do not fit each other.
        MachineError: the device cannot run kernels in this process.
    """
    width = inputs.shape[-1]
    rows, columns = inputs.numel() // width, len(weight) // (2 if gated else 1)
    shape = (*inputs.shape[:-1], columns)
    require_shape("weight", weight, (columns * (2 if gated else 1), width))
    out = inputs.new_empty(shape)
    arguments: Arguments = {"x": inputs, "weight": weight, "columns": columns, "out": out}
    kind: tuple[Norm, float] | None = None
    if norm is not None:
        require_shape("the norm's gain", norm.weight, (width,))
        eps = torch.finfo(inputs.dtype).eps if norm.eps is None else norm.eps
        arguments["gain"], kind = norm.weight, ("rms", eps)
        if isinstance(norm, nn.LayerNorm):
            arguments["shift"], kind = norm.bias, ("layer", eps)
    if bias is not None:
        require_shape("bias", bias, (len(weight),))
        arguments["bias"] = bias
    if residual is not None:
        require_shape("residual", residual, shape)
        arguments["residual"] = residual
    dtype, target = type_name(inputs.dtype), target_of(inputs.device)
    specialised = specialise(width, rows, dtype, target, kind, bias is not None, residual is not None, gated)
    launch(specialised, (quotient_up(columns, _COLUMNS),), arguments)
    return out
