"""Device code of prefill on Hopper: one warp group loads tiles by TMA, two multiply them by wgmma.

    loader        Q, K₀ V₀, K₁ V₁, …           into shared memory, ahead of the other two
    half 0        S₁ = Q K₁ᵀ   O += P₀ V₀      softmax of S₁ ……………        S₂ = …
    half 1                                     S₁ = Q K₁ᵀ   O += P₀ V₀     softmax of S₁

A block has 128 queries; each half of them is a warp group of its own. Its softmax runs while its product with V does,
and while the other half multiplies: ``turn`` hands the matrix unit over. Of a tile that reaches past what a row may
read the loader clears the rest of V, since 0 · NaN would not be 0.

The arithmetic of a tile is that of the interpreted kernels (online_softmax.py).

Legend: S queries of a half, T keys of a tile, D head size. A tile's memory has two barriers: ``ready`` when it is
loaded, ``free`` when both halves have read it.
Source: Shah et al. 2024, "FlashAttention-3", sections 3.1 and 3.2; PTX ISA 9, sections on mbarrier, TMA and wgmma.
"""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

from models.kernels import online_softmax

HALF_QUERIES = 64
"""Queries of a warp group: the rows of one wgmma."""
WARPS = 12
"""Of a block: three warp groups."""
LAUNCH_REGISTERS = 168
"""Of each thread when a block starts; the loader then gives of its own to the halves: 40 + 2 · 232 = 3 · 168."""
reweigh = gluon.jit(online_softmax.reweigh.fn)
average = gluon.jit(online_softmax.average.fn)
# Triton 3.9 renamed them.
load_tile = getattr(tma, "async_load", None) or tma.async_copy_global_to_shared
store_tile = getattr(tma, "async_store", None) or tma.async_copy_shared_to_global


@gluon.jit
def hopper_flash_attention_kernel(
    q: gl.tensor,
    k: gl.tensor,
    v: gl.tensor,
    lengths: gl.tensor,
    queries: gl.tensor,
    capacity: gl.tensor,
    out: gl.tensor,
    HEADS: gl.constexpr,
    KV_HEADS: gl.constexpr,
    HEAD_SIZE: gl.constexpr,
    CAUSAL: gl.constexpr,
    SCALE_LOG2: gl.constexpr,
    BLOCK_T: gl.constexpr,
    STAGES: gl.constexpr,
) -> None:
    """Attend; ``q`` and ``out`` describe ``[B·H, S, D]``, ``k`` and ``v`` ``[B·G, M, D]``; ``lengths`` is ``[B]``."""
    row = gl.program_id(0)
    # The tiles that see most keys start first, so that the last to end are short.
    tile = gl.num_programs(1) - 1 - gl.program_id(1)
    batch = row // HEADS
    group = batch * KV_HEADS + row % HEADS // (HEADS // KV_HEADS)
    sizes = (gl.load(lengths + batch).to(gl.int32), queries, capacity)
    dtype: gl.constexpr = q.dtype
    memory = (
        gl.allocate_shared_memory(dtype, [2, 1, 64, HEAD_SIZE], q.layout),
        gl.allocate_shared_memory(dtype, [STAGES, 1, BLOCK_T, HEAD_SIZE], k.layout),
        gl.allocate_shared_memory(dtype, [STAGES, 1, BLOCK_T, HEAD_SIZE], v.layout),
    )
    q_ready, turn = allocate_barriers(2, 1), allocate_barriers(2, 1)
    k_ready, k_free = allocate_barriers(STAGES, 1), allocate_barriers(STAGES, 2)
    v_ready, v_free = allocate_barriers(STAGES, 1), allocate_barriers(STAGES, 2)
    landed = allocate_barriers(1, 1)
    barriers = (q_ready, k_ready, k_free, v_ready, v_free, turn, landed)
    task = (sizes, tile, row, memory, barriers)
    gl.warp_specialize(
        [
            (attend_half, (task, out, 0, HEAD_SIZE, BLOCK_T, STAGES, CAUSAL, SCALE_LOG2)),
            (attend_half, (task, out, 1, HEAD_SIZE, BLOCK_T, STAGES, CAUSAL, SCALE_LOG2)),
            (load_tiles, (task, q, k, v, group, HEAD_SIZE, BLOCK_T, STAGES, CAUSAL)),
        ],
        [4, 4],
        [232, 40],
    )


@gluon.jit
def allocate_barriers(NUMBER: gl.constexpr, ARRIVALS: gl.constexpr) -> gl.tensor:
    """Barriers that each complete a phase when so many have arrived, and all bytes that were expected."""
    barriers = gl.allocate_shared_memory(gl.int64, [NUMBER, 1], mbarrier.MBarrierLayout())
    for index in gl.static_range(NUMBER):
        mbarrier.init(barriers.index(index), count=ARRIVALS)
    return barriers


@gluon.jit
def count_tiles(sizes: gl.tuple, tile: gl.tensor, BLOCK_T: gl.constexpr, CAUSAL: gl.constexpr) -> gl.tensor:
    """Tiles of keys that any query of a block sees; at least one, which may show nothing."""
    length, queries, capacity = sizes
    one_sees = gl.minimum(length, capacity)
    if CAUSAL:
        one_sees = gl.minimum(one_sees, length - queries + gl.minimum((tile + 1) * 128, queries))
    return gl.maximum((one_sees + BLOCK_T - 1) // BLOCK_T, 1)


@gluon.jit
def load_tiles(
    task: gl.tuple,
    q: gl.tensor,
    k: gl.tensor,
    v: gl.tensor,
    group: gl.tensor,
    HEAD_SIZE: gl.constexpr,
    BLOCK_T: gl.constexpr,
    STAGES: gl.constexpr,
    CAUSAL: gl.constexpr,
) -> None:
    """Load queries once, and keys and values in their turn, into what both halves have freed."""
    sizes, tile, row, memory, barriers = task
    q_smem, k_smem, v_smem = memory
    q_ready, k_ready, k_free, v_ready, v_free, _turn, landed = barriers
    readable = gl.minimum(sizes[0], sizes[2])
    for half in gl.static_range(2):
        mbarrier.expect(q_ready.index(half), q.block_type.nbytes)
        load_tile(q, [row, tile * 128 + half * 64, 0], q_ready.index(half), q_smem.index(half))
    for i in range(count_tiles(sizes, tile, BLOCK_T, CAUSAL)):
        slot, phase, first = i % STAGES, i // STAGES & 1, i * BLOCK_T
        mbarrier.wait(k_free.index(slot), phase ^ 1)
        mbarrier.expect(k_ready.index(slot), k.block_type.nbytes)
        load_tile(k, [group, first, 0], k_ready.index(slot), k_smem.index(slot))
        mbarrier.wait(v_free.index(slot), phase ^ 1)
        if first + BLOCK_T <= readable:
            mbarrier.expect(v_ready.index(slot), v.block_type.nbytes)
            load_tile(v, [group, first, 0], v_ready.index(slot), v_smem.index(slot))
        else:  # the last tile, so that this happens once
            mbarrier.expect(landed.index(0), v.block_type.nbytes)
            load_tile(v, [group, first, 0], landed.index(0), v_smem.index(slot))
            mbarrier.wait(landed.index(0), 0)
            clear_rows(v_smem.index(slot).reshape([BLOCK_T, HEAD_SIZE]), readable - first, BLOCK_T, HEAD_SIZE)
            fence_async_shared()
            mbarrier.arrive(v_ready.index(slot), count=1)


@gluon.jit
def clear_rows(matrix: gl.tensor, kept: gl.tensor, ROWS: gl.constexpr, COLUMNS: gl.constexpr) -> None:
    """Put zeros into the rows of a matrix in shared memory that come after the first ones."""
    layout: gl.constexpr = gl.BlockedLayout([1, 8], [256 // COLUMNS, COLUMNS // 8], [4, 1], [1, 0])
    for first in gl.static_range(0, ROWS, 16):
        if kept < first + 16:
            part = matrix.slice(first, 16, dim=0)
            row_R = first + gl.arange(0, 16, gl.SliceLayout(1, layout))
            part.store(gl.where((row_R < kept)[:, None], part.load(layout), 0.0))


@gluon.jit
def attend_half(
    task: gl.tuple,
    out: gl.tensor,
    HALF: gl.constexpr,
    HEAD_SIZE: gl.constexpr,
    BLOCK_T: gl.constexpr,
    STAGES: gl.constexpr,
    CAUSAL: gl.constexpr,
    SCALE_LOG2: gl.constexpr,
) -> None:
    """Attend from 64 queries to all tiles, and store what they get."""
    scores_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_T, 16])
    out_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, HEAD_SIZE, 16])
    weights_layout: gl.constexpr = gl.DotOperandLayout(0, out_layout, 2)
    sizes, tile, row, memory, barriers = task
    q_smem, k_smem, v_smem = memory
    q_ready, k_ready, k_free, v_ready, v_free, turn, _landed = barriers
    length, queries, capacity = sizes
    count = count_tiles(sizes, tile, BLOCK_T, CAUSAL)
    readable = gl.minimum(length, capacity)
    first_s = tile * 128 + HALF * 64
    reach_S = first_s + length - queries + gl.arange(0, 64, gl.SliceLayout(1, scores_layout))
    all_see = readable
    if CAUSAL:
        all_see = gl.minimum(readable, first_s + length - queries + 1)
    whole = gl.maximum(all_see, 0) // BLOCK_T

    nothing_ST = gl.zeros([64, BLOCK_T], gl.float32, scores_layout)
    weighted_SD = gl.zeros([64, HEAD_SIZE], gl.float32, out_layout)
    total_S = gl.zeros([64], gl.float32, gl.SliceLayout(1, scores_layout))
    maximum_S = total_S - float("inf")
    q_SD = q_smem.index(HALF).reshape([64, HEAD_SIZE])
    mbarrier.wait(q_ready.index(HALF), 0)
    mbarrier.wait(k_ready.index(0), 0)
    k_DT = k_smem.index(0).reshape([BLOCK_T, HEAD_SIZE]).permute((1, 0))
    scoring = warpgroup_mma(q_SD, k_DT, nothing_ST, use_acc=False, is_async=True)
    scores_ST = warpgroup_mma_wait(0, deps=(scoring,))
    mbarrier.arrive(k_free.index(0), count=1)
    scores_ST = mask_scores(scores_ST, 0, readable, reach_S, BLOCK_T, CAUSAL, scores_layout)
    weights_ST, shrink_S, maximum_S, total_S = reweigh(scores_ST, maximum_S, total_S, SCALE_LOG2)
    operand_ST = gl.convert_layout(weights_ST.to(out.dtype), weights_layout)
    for i in range(1, count):
        slot, before = i % STAGES, (i - 1) % STAGES
        mbarrier.wait(k_ready.index(slot), i // STAGES & 1)
        mbarrier.wait(turn.index(HALF), (i - HALF) & 1)
        k_DT = k_smem.index(slot).reshape([BLOCK_T, HEAD_SIZE]).permute((1, 0))
        scoring = warpgroup_mma(q_SD, k_DT, nothing_ST, use_acc=False, is_async=True)
        mbarrier.wait(v_ready.index(before), (i - 1) // STAGES & 1)
        v_TD = v_smem.index(before).reshape([BLOCK_T, HEAD_SIZE])
        weighing = warpgroup_mma(operand_ST, v_TD, weighted_SD, is_async=True)
        mbarrier.arrive(turn.index(1 - HALF), count=1)
        scores_ST = warpgroup_mma_wait(1, deps=(scoring,))
        mbarrier.arrive(k_free.index(slot), count=1)
        if i >= whole:
            scores_ST = mask_scores(scores_ST, i * BLOCK_T, readable, reach_S, BLOCK_T, CAUSAL, scores_layout)
        weights_ST, shrink_S, maximum_S, total_S = reweigh(scores_ST, maximum_S, total_S, SCALE_LOG2)
        operand_ST = gl.convert_layout(weights_ST.to(out.dtype), weights_layout)
        weighted_SD = warpgroup_mma_wait(0, deps=(weighing,))
        mbarrier.arrive(v_free.index(before), count=1)
        weighted_SD = weighted_SD * gl.convert_layout(shrink_S, gl.SliceLayout(1, out_layout))[:, None]
    last = (count - 1) % STAGES
    mbarrier.wait(v_ready.index(last), (count - 1) // STAGES & 1)
    v_TD = v_smem.index(last).reshape([BLOCK_T, HEAD_SIZE])
    weighing = warpgroup_mma(operand_ST, v_TD, weighted_SD, is_async=True)
    weighted_SD = warpgroup_mma_wait(0, deps=(weighing,))
    mean_SD = average(weighted_SD, gl.convert_layout(total_S, gl.SliceLayout(1, out_layout)))
    q_SD.store(mean_SD.to(out.dtype))  # all products with these queries are done
    fence_async_shared()
    store_tile(out, [row, first_s, 0], q_smem.index(HALF))
    tma.store_wait(0)


@gluon.jit
def mask_scores(
    scores_ST: gl.tensor,
    first: gl.tensor,
    readable: gl.tensor,
    reach_S: gl.tensor,
    BLOCK_T: gl.constexpr,
    CAUSAL: gl.constexpr,
    layout: gl.constexpr,
) -> gl.tensor:
    """Scores with −∞ where a query does not see a key: behind what is readable, or behind the query itself."""
    t_T = first + gl.arange(0, BLOCK_T, gl.SliceLayout(0, layout))
    seen_ST = (t_T < readable)[None, :]
    if CAUSAL:
        seen_ST = seen_ST & (t_T[None, :] <= reach_S[:, None])
    return gl.where(seen_ST, scores_ST, -float("inf"))
