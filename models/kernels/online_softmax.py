"""Device functions of every attention kernel: load rows of a matrix, and add a tile of keys to a running softmax.

    m′ = max(m, c · rowmax S)        P = 2^(c S − m′)        l ← 2^(m − m′) l + rowsum P        O ← 2^(m − m′) O + P V

The powers are of two, which the hardware has: c holds log₂ e. What is summed is float32, whatever the inputs are.

Legend: S rows of a tile, T keys of a tile, D head size, padded to a power of two.
Source: Dao 2023, "FlashAttention-2", algorithm 1; its plain twin is models/layers/flash_attention.py.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def load_rows(
    matrix: tl.tensor, row_S: tl.tensor, seen_S: tl.tensor, HEAD_SIZE: tl.constexpr, BLOCK_D: tl.constexpr
) -> tl.tensor:
    """Rows of a contiguous matrix ``[…, D]`` by their numbers; zeros in rows not seen and in columns past D."""
    d_D = tl.arange(0, BLOCK_D)
    place_SD = row_S[:, None] * HEAD_SIZE + d_D[None, :]
    return tl.load(matrix + place_SD, mask=seen_S[:, None] & (d_D < HEAD_SIZE)[None, :], other=0.0)


@triton.jit
def store_rows(
    matrix: tl.tensor,
    row_S: tl.tensor,
    seen_S: tl.tensor,
    x_SD: tl.tensor,
    HEAD_SIZE: tl.constexpr,
    BLOCK_D: tl.constexpr,
) -> tl.tensor:
    """Write what :func:`load_rows` reads, in the matrix's type."""
    d_D = tl.arange(0, BLOCK_D)
    place_SD = row_S[:, None] * HEAD_SIZE + d_D[None, :]
    shown_SD = seen_S[:, None] & (d_D < HEAD_SIZE)[None, :]
    tl.store(matrix + place_SD, x_SD.to(matrix.dtype.element_ty), mask=shown_SD)


@triton.jit
def nothing_seen(BLOCK_S: tl.constexpr, BLOCK_D: tl.constexpr) -> tl.tensor:
    """Maximum, sum and weighted values of rows that have seen no key yet."""
    nothing_S = tl.zeros([BLOCK_S], tl.float32)
    return nothing_S - float("inf"), nothing_S, tl.zeros([BLOCK_S, BLOCK_D], tl.float32)


@triton.jit
def reweigh(scores_ST: tl.tensor, maximum_S: tl.tensor, total_S: tl.tensor, c: tl.tensor) -> tl.tensor:
    """Weights P of a tile, what shrinks earlier sums, and the new maximum and sum of each row.

    Scores are −∞ where masked, c is positive; a row may have seen nothing yet.
    """
    highest_S = tl.maximum(maximum_S, tl.max(scores_ST, 1) * c)
    # −∞ − −∞ would be NaN in a row that has seen nothing.
    finite_S = tl.where(highest_S == -float("inf"), 0.0, highest_S)
    weights_ST = tl.exp2(scores_ST * c - finite_S[:, None])
    shrink_S = tl.exp2(maximum_S - finite_S)
    return weights_ST, shrink_S, highest_S, total_S * shrink_S + tl.sum(weights_ST, 1)


@triton.jit
def see(
    scores_ST: tl.tensor,
    v_TD: tl.tensor,
    maximum_S: tl.tensor,
    total_S: tl.tensor,
    weighted_SD: tl.tensor,
    c: tl.tensor,
    PRECISION: tl.constexpr,
) -> tl.tensor:
    """Add a tile: scores and c as :func:`reweigh` takes them."""
    weights_ST, shrink_S, maximum_S, total_S = reweigh(scores_ST, maximum_S, total_S, c)
    shrunk_SD = weighted_SD * shrink_S[:, None]
    weighted_SD = tl.dot(weights_ST.to(v_TD.dtype), v_TD, shrunk_SD, input_precision=PRECISION)
    return maximum_S, total_S, weighted_SD


@triton.jit
def average(weighted_SD: tl.tensor, total_S: tl.tensor) -> tl.tensor:
    """The weighted mean of the values; zeros in a row that has seen nothing."""
    return weighted_SD / tl.where(total_S == 0.0, 1.0, total_S)[:, None]
