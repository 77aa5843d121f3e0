"""Device function: read rows and turn every pair of their dimensions by the angle of their position.

    (a, b) → (a cos − b sin, a sin + b cos)        half: dimensions i and i + D/2        interleaved: 2i and 2i + 1

Computed in float32, rounded once. The plain twin is models/layers/rope.py.

Legend: R rows, D head size, F = D / 2 angles.
"""

from __future__ import annotations

import triton
import triton.language as tl

from models.kernels.online_softmax import load_rows


@triton.jit
def load_rotated_rows(
    matrix: tl.tensor,
    cos: tl.tensor,
    sin: tl.tensor,
    row_R: tl.tensor,
    angle_R: tl.tensor,
    seen_R: tl.tensor,
    HEAD_SIZE: tl.constexpr,
    BLOCK_D: tl.constexpr,
    LAYOUT: tl.constexpr,
) -> tl.tensor:
    """Rows of ``[…, D]``, turned by the rows ``angle_R`` of cosines and sines ``[…, F]``; as they are if no layout."""
    x_RD = load_rows(matrix, row_R, seen_R, HEAD_SIZE, BLOCK_D)
    if LAYOUT != "none":  # a return in here would have Triton compile the rest all the same, without angles
        d_D = tl.arange(0, BLOCK_D)
        half: tl.constexpr = HEAD_SIZE // 2
        if LAYOUT == "half":
            pair_D, first_D = d_D % half, d_D < half
            partner_D = tl.where(first_D, d_D + half, d_D - half)
        else:
            pair_D, first_D = d_D // 2, d_D % 2 == 0
            partner_D = tl.where(first_D, d_D + 1, d_D - 1)
        shown_RD = seen_R[:, None] & (d_D < HEAD_SIZE)[None, :]
        partner_RD = tl.load(matrix + row_R[:, None] * HEAD_SIZE + partner_D[None, :], mask=shown_RD, other=0.0)
        place_RD = angle_R[:, None] * half + pair_D[None, :]
        cos_RD = tl.load(cos + place_RD, mask=shown_RD, other=0.0).to(tl.float32)
        sin_RD = tl.load(sin + place_RD, mask=shown_RD, other=0.0).to(tl.float32)
        signed_RD = tl.where(first_D[None, :], -sin_RD, sin_RD)
        turned_RD = x_RD.to(tl.float32) * cos_RD + partner_RD.to(tl.float32) * signed_RD
        x_RD = turned_RD.to(x_RD.dtype)
    return x_RD
