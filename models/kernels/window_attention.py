"""Attention within the windows of a map, shifted or not, read and written where the map lies.

    score(p, q) = scale · Q_p · K_q + table[h, (2W − 1)(row_p − row_q + W − 1) + column_p − column_q + W − 1]
    cosine: scale_h · Q_p · K_q / (max(|Q_p|, 10⁻⁴) max(|K_q|, 10⁻⁴)) in place of the product
    −∞ where one of two places came over an edge of the shifted map and the other did not

No window is cut out and joined again, and neither the bias of all pairs nor the mask exists: places, offsets and edges
are computed from the indices. One program a window, a head and a tile of its queries.

Legend: B batch, h and w sides of a map, multiples of W, C = H D channels, H heads, D head size, W side of a window, P =
W² places of a window, O = (2W − 1)² offsets; S queries and T keys of a tile.
Source: Liu et al. 2021, "Swin Transformer", section 3.2; Liu et al. 2022, "Swin Transformer V2", section 3.2 (cosine).
The plain layers are models/layers/{windows,window_attention,relative_position_2d,cosine_attention}.py.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from attendant.errors import InputError
from models.kernel_configs.gpu_targets import GpuTarget, target_of
from models.kernel_configs.specialisation import Specialisation, quotient_up, type_name
from models.kernel_configs.window_tiles import WindowConfig
from models.kernels.launch import Arguments, launch, require_shape
from models.kernels.online_softmax import average, nothing_seen, see


@triton.jit
def place_of(
    window: tl.tensor,
    p_P: tl.tensor,
    height: tl.tensor,
    width: tl.tensor,
    WINDOW: tl.constexpr,
    SHIFT: tl.constexpr,
) -> tl.tensor:
    """Of places of a window: their number in the map, row by row, and which edges of the shifted map they came over."""
    across = width // WINDOW
    row_P = window // across * WINDOW + p_P // WINDOW
    column_P = window % across * WINDOW + p_P % WINDOW
    region_P = 2 * (row_P >= height - SHIFT).to(tl.int32) + (column_P >= width - SHIFT).to(tl.int32)
    return (row_P + SHIFT) % height * width + (column_P + SHIFT) % width, region_P


@triton.jit
def inverse_length(x_PD: tl.tensor) -> tl.tensor:
    """One over the length of vectors, which count as at least 10⁻⁴ long."""
    x_PD = x_PD.to(tl.float32)
    return 1.0 / tl.maximum(tl.sqrt(tl.sum(x_PD * x_PD, 1)), 1e-4)


@triton.jit
def window_attention_kernel(
    q: tl.tensor,
    k: tl.tensor,
    v: tl.tensor,
    table: tl.tensor,
    scales: tl.tensor,
    height: tl.tensor,
    width: tl.tensor,
    out: tl.tensor,
    HEADS: tl.constexpr,
    HEAD_SIZE: tl.constexpr,
    WINDOW: tl.constexpr,
    SHIFT: tl.constexpr,
    COSINE: tl.constexpr,
    SCALE: tl.constexpr,
    LOG2_E: tl.constexpr,
    BLOCK_S: tl.constexpr,
    BLOCK_T: tl.constexpr,
    BLOCK_D: tl.constexpr,
    PRECISION: tl.constexpr,
) -> None:
    """See the module; maps are ``[B, h, w, C]``, ``table`` is ``[H, O]``, ``scales`` float32 ``[H]``."""
    PLACES: tl.constexpr = WINDOW * WINDOW
    TILES: tl.constexpr = (PLACES + BLOCK_S - 1) // BLOCK_S
    window, tile = tl.program_id(0) // TILES, tl.program_id(0) % TILES
    head, batch = tl.program_id(1), tl.program_id(2)
    origin = batch.to(tl.int64) * height * width * (HEADS * HEAD_SIZE) + head * HEAD_SIZE
    d_D = tl.arange(0, BLOCK_D)
    s_S = tile * BLOCK_S + tl.arange(0, BLOCK_S)
    place_S, region_S = place_of(window, s_S, height, width, WINDOW, SHIFT)
    at_SD = origin + place_S[:, None] * (HEADS * HEAD_SIZE) + d_D[None, :]
    shown_SD = (s_S < PLACES)[:, None] & (d_D < HEAD_SIZE)[None, :]
    q_SD = tl.load(q + at_SD, mask=shown_SD, other=0.0)
    factor_S = tl.full([BLOCK_S], SCALE, tl.float32)
    if COSINE:
        factor_S = inverse_length(q_SD) * tl.load(scales + head)
    maximum_S, total_S, weighted_SD = nothing_seen(BLOCK_S, BLOCK_D)
    for first in range(0, PLACES, BLOCK_T):
        t_T = first + tl.arange(0, BLOCK_T)
        place_T, region_T = place_of(window, t_T, height, width, WINDOW, SHIFT)
        at_TD = origin + place_T[:, None] * (HEADS * HEAD_SIZE) + d_D[None, :]
        shown_TD = (t_T < PLACES)[:, None] & (d_D < HEAD_SIZE)[None, :]
        k_TD = tl.load(k + at_TD, mask=shown_TD, other=0.0)
        scores_ST = tl.dot(q_SD, tl.trans(k_TD), input_precision=PRECISION) * factor_S[:, None]
        if COSINE:
            scores_ST *= inverse_length(k_TD)[None, :]
        down_ST = s_S[:, None] // WINDOW - t_T[None, :] // WINDOW + WINDOW - 1
        right_ST = s_S[:, None] % WINDOW - t_T[None, :] % WINDOW + WINDOW - 1
        inside_ST = (s_S < PLACES)[:, None] & (t_T < PLACES)[None, :]
        offset_ST = head * ((2 * WINDOW - 1) * (2 * WINDOW - 1)) + (2 * WINDOW - 1) * down_ST + right_ST
        scores_ST += tl.load(table + offset_ST, mask=inside_ST, other=0.0).to(tl.float32)
        seen_ST = inside_ST
        if SHIFT > 0:
            seen_ST = seen_ST & (region_S[:, None] == region_T[None, :])
        scores_ST = tl.where(seen_ST, scores_ST, -float("inf"))
        v_TD = tl.load(v + at_TD, mask=shown_TD, other=0.0)
        maximum_S, total_S, weighted_SD = see(scores_ST, v_TD, maximum_S, total_S, weighted_SD, LOG2_E, PRECISION)
    tl.store(out + at_SD, average(weighted_SD, total_S).to(out.dtype.element_ty), mask=shown_SD)


def specialise(config: WindowConfig, target: GpuTarget) -> Specialisation:
    """The kernel for windows of one kind on a target."""
    constants, warps, stages = config.constants(target)
    unused = {} if config.cosine else {"scales": None}
    return Specialisation(
        kernel=window_attention_kernel,
        types=config.types(),
        constants={**constants, **unused},
        warps=warps,
        stages=stages,
    )


def grid(specialisation: Specialisation, batch: int, height: int, width: int) -> tuple[int, int, int]:
    """Blocks along each axis; sizes may be TensorRT's symbols."""
    constants = specialisation.constants
    window, block = constants["WINDOW"], constants["BLOCK_S"]
    windows = (height // window) * (width // window)
    return windows * quotient_up(window * window, block), constants["HEADS"], batch


def window_attention(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    table: Tensor,
    window: int,
    shift: int = 0,
    scales: Tensor | None = None,
    scale: float | None = None,
) -> Tensor:
    """Attend.

    Args:
        queries: ``[B, h, w, C]`` with h and w multiples of the window: what was padded to be so was padded before the
            projections.
        keys: as queries.
        values: as queries.
        table: of the queries' type, ``[H, O]``: a bias for each head and offset (Swin's table is ``[O, H]``).
        window: W.
        shift: by how many places the map moves up and left before it is cut, less than W.
        scales: float32 ``[H]``, of cosines (1/τ); products are the scores if None.
        scale: of products; 1/√D if not given.

    Returns:
        ``[B, h, w, C]``.

    Raises:
        ConfigError: there is no kernel for such windows or heads.
        InputError: shapes, types, devices or layouts do not fit each other.
        MachineError: the device cannot run kernels in this process.
    """
    batch, height, width, channels = queries.shape
    heads = table.shape[0]
    if channels % heads or height % window or width % window:
        found = f"{list(queries.shape)} with {heads} heads and windows of {window}"
        raise InputError("sides that are multiples of the window, channels of the heads", found, "pad the map first")
    config = WindowConfig.of(
        channels // heads, heads, window, shift, scales is not None, scale, type_name(queries.dtype)
    )
    require_shape("keys", keys, tuple(queries.shape))
    require_shape("values", values, tuple(queries.shape))
    require_shape("table", table, (heads, (2 * window - 1) ** 2))
    out = torch.empty_like(queries)
    arguments: Arguments = {
        "q": queries,
        "k": keys,
        "v": values,
        "table": table,
        "height": height,
        "width": width,
        "out": out,
    }
    if scales is not None:
        require_shape("scales", scales, (heads,))
        arguments["scales"] = scales
    specialisation = specialise(config, target_of(queries.device))
    launch(specialisation, grid(specialisation, batch, height, width), arguments)
    return out
