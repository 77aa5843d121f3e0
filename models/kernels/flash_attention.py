"""Attention of many queries at once, causal or not, without a matrix of all scores: prefill, and encoders.

    out[b, h, s] = Σ_t softmax_t(scale · q[b, h, s] · k[b, ⌊h G / H⌋, t]) v[b, ⌊h G / H⌋, t]
    t < lengths[b] and t < M, and if causal t ≤ s + lengths[b] − S: the queries are the last S of a row's positions

One program a tile of queries and a head. Tiles of keys that all its queries see whole are added without a mask.

Tensors are ``[B, H, S, D]`` and ``[B, G, M, D]``, or lie as one product makes them: ``[B, S, W, D]``, whose heads of a
position are the queries', the keys' and the values', so that W = H + 2 G; the result is then ``[B, S, H, D]``.

Legend: B batch, S queries, M capacity of keys, H query heads, G key and value heads, D head size, W heads of a
position.
Source: Dao 2023, "FlashAttention-2", section 3; the order of arguments is that of TensorRT's AOT plugins.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from models.kernel_configs.gpu_targets import WITHOUT_LEAVE_BYTES, GpuTarget, target_of
from models.kernel_configs.heads import HeadsConfig, heads_of
from models.kernel_configs.specialisation import Specialisation, pointer, quotient_up, type_name
from models.kernel_configs.tuned import Tiles, find_tiles
from models.kernels.launch import Arguments, in_one_line, launch, lie_together, require_shape
from models.kernels.online_softmax import average, load_rows, nothing_seen, see, store_rows

KERNEL = "flash_attention"
_PIPELINED_WITHOUT_LEAVE = {
    64: {"mma": (128, 64, 8, 3), "wgmma": (128, 64, 8, 2), "tcgen05": (128, 32, 8, 3)},
    128: {"mma": (128, 32, 8, 2), "wgmma": (64, 32, 4, 2), "tcgen05": (64, 16, 4, 3)},
    256: dict.fromkeys(("mma", "wgmma", "tcgen05"), (32, 16, 4, 2)),
}
"""Head size → matrix unit → queries, keys, warps and stages that fit 48 KiB and load ahead. 64 queries, the fewest of
``wgmma`` and ``tcgen05``, take 32 KiB of it in heads of 256: there every target multiplies 32 by ``mma``."""


@triton.jit
def flash_attention_kernel(
    q: tl.tensor,
    k: tl.tensor,
    v: tl.tensor,
    lengths: tl.tensor,
    queries: tl.tensor,
    capacity: tl.tensor,
    out: tl.tensor,
    HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    HEAD_SIZE: tl.constexpr,
    CAUSAL: tl.constexpr,
    EVERY: tl.constexpr,
    SCALE_LOG2: tl.constexpr,
    BLOCK_S: tl.constexpr,
    BLOCK_T: tl.constexpr,
    BLOCK_D: tl.constexpr,
    PRECISION: tl.constexpr,
) -> None:
    """See the module; ``lengths`` is ``[B]``.

    EVERY is how many rows of D lie between two positions of a head: W where queries, keys and values are
    ``[B, S, W, D]``, of which each pointer shows its first head, and otherwise 1.
    """
    # The tiles that see most keys start first, so that the last to end are short.
    tile = tl.num_programs(0) - 1 - tl.program_id(0)
    row = tl.program_id(1)
    batch = row // HEADS
    group = batch * KV_HEADS + row % HEADS // (HEADS // KV_HEADS)
    length = tl.load(lengths + batch).to(tl.int32)
    s_S = tile * BLOCK_S + tl.arange(0, BLOCK_S)
    if EVERY == 1:
        q_MD = q + row.to(tl.int64) * queries * HEAD_SIZE
        first_kv = group.to(tl.int64) * capacity * HEAD_SIZE
    else:
        of_batch = batch.to(tl.int64) * queries
        q_MD = q + (of_batch * EVERY + row % HEADS) * HEAD_SIZE
        first_kv = (of_batch * EVERY + group % KV_HEADS) * HEAD_SIZE
    q_SD = load_rows(q_MD, s_S * EVERY, s_S < queries, HEAD_SIZE, BLOCK_D)
    k_MD, v_MD = k + first_kv, v + first_kv
    past, readable = length - queries, tl.minimum(length, capacity)
    all_see, one_sees = readable, readable
    if CAUSAL:
        all_see = tl.maximum(tl.minimum(readable, past + tile * BLOCK_S + 1), 0)
        one_sees = tl.minimum(readable, past + tl.minimum((tile + 1) * BLOCK_S, queries))
    whole = all_see // BLOCK_T * BLOCK_T
    maximum_S, total_S, weighted_SD = nothing_seen(BLOCK_S, BLOCK_D)
    for first in range(0, whole, BLOCK_T):
        t_T = first + tl.arange(0, BLOCK_T)
        every_T = t_T >= 0
        k_TD = load_rows(k_MD, t_T * EVERY, every_T, HEAD_SIZE, BLOCK_D)
        scores_ST = tl.dot(q_SD, tl.trans(k_TD), input_precision=PRECISION)
        v_TD = load_rows(v_MD, t_T * EVERY, every_T, HEAD_SIZE, BLOCK_D)
        maximum_S, total_S, weighted_SD = see(scores_ST, v_TD, maximum_S, total_S, weighted_SD, SCALE_LOG2, PRECISION)
    for first in range(whole, one_sees, BLOCK_T):
        t_T = first + tl.arange(0, BLOCK_T)
        k_TD = load_rows(k_MD, t_T * EVERY, t_T < readable, HEAD_SIZE, BLOCK_D)
        scores_ST = tl.dot(q_SD, tl.trans(k_TD), input_precision=PRECISION)
        seen_ST = (t_T < readable)[None, :]
        if CAUSAL:
            seen_ST = seen_ST & (t_T[None, :] <= (s_S + past)[:, None])
        scores_ST = tl.where(seen_ST, scores_ST, -float("inf"))
        v_TD = load_rows(v_MD, t_T * EVERY, t_T < readable, HEAD_SIZE, BLOCK_D)
        maximum_S, total_S, weighted_SD = see(scores_ST, v_TD, maximum_S, total_S, weighted_SD, SCALE_LOG2, PRECISION)
    mean_SD = average(weighted_SD, total_S)
    if EVERY == 1:
        out_SD = out + row.to(tl.int64) * queries * HEAD_SIZE
        store_rows(out_SD, s_S, s_S < queries, mean_SD, HEAD_SIZE, BLOCK_D)
    else:
        out_SD = out + (of_batch * HEADS + row % HEADS) * HEAD_SIZE
        store_rows(out_SD, s_S * HEADS, s_S < queries, mean_SD, HEAD_SIZE, BLOCK_D)


def tiles(heads: HeadsConfig, target: GpuTarget) -> Tiles:
    """What was timed on the target, or what fits its shared memory without spilling registers."""
    queries, keys, warps, stages = _default_tiles(heads, target)
    fitting = Tiles(queries=queries, keys=keys, warps=warps, stages=stages)
    return find_tiles(target, KERNEL, shape_of(heads)) or fitting


def shape_of(heads: HeadsConfig) -> str:
    """What tiles depend on."""
    return f"{heads.bits} bits, heads of {heads.block}"


def _default_tiles(heads: HeadsConfig, target: GpuTarget) -> tuple[int, int, int, int]:
    if heads.dtype == "float32":
        if heads.block <= 64:
            return 32, 16 if heads.block == 64 else 32, 4, 2
        return (32, 16, 8, 1) if heads.block == 128 else (16, 16, 8, 1)
    if heads.block < 64:
        return 128, 64, 8, 3
    if target.shared_bytes <= WITHOUT_LEAVE_BYTES:
        return _PIPELINED_WITHOUT_LEAVE[heads.block][target.matrix_unit]
    if heads.block == 64:
        return 128, 64, 8, 3
    if heads.block == 128:
        return (128, 64, 8, 3) if target.shared_bytes > 128 * 1024 else (128, 32, 8, 2)
    return (128, 32, 8, 2) if target.shared_bytes > 200 * 1024 else (64, 32, 8, 2)


def specialise(
    heads: HeadsConfig, causal: bool, target: GpuTarget, lengths: str = "int32", together: bool = False
) -> Specialisation:
    """The kernel for heads of one kind.

    Args:
        heads: of queries, keys and values.
        causal: whether a query sees no position behind its own.
        target: what it will run on.
        lengths: type of the lengths.
        together: whether queries, keys and values are one tensor ``[B, S, W, D]``.
    """
    tile = tiles(heads, target)
    floats = pointer(heads.dtype)
    return Specialisation(
        kernel=flash_attention_kernel,
        types={
            "q": floats,
            "k": floats,
            "v": floats,
            "lengths": pointer(lengths),
            "queries": "i32",
            "capacity": "i32",
            "out": floats,
        },
        constants={
            "HEADS": heads.heads,
            "KV_HEADS": heads.kv_heads,
            "CAUSAL": causal,
            "EVERY": heads.heads + 2 * heads.kv_heads if together else 1,
            "BLOCK_S": tile.queries,
            "BLOCK_T": tile.keys,
            **heads.constants(),
        },
        warps=tile.warps,
        stages=tile.stages,
    )


def grid(specialisation: Specialisation, batch: int, queries: int) -> tuple[int, int]:
    """Blocks along each axis; sizes may be TensorRT's symbols."""
    constants = specialisation.constants
    return quotient_up(queries, constants["BLOCK_S"]), batch * constants["HEADS"]


def flash_attention(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    lengths: Tensor,
    causal: bool = False,
    scale: float | None = None,
    target: GpuTarget | None = None,
) -> Tensor:
    """Attend.

    Args:
        queries: ``[B, H, S, D]``; if causal, the last S of each row's positions.
        keys: ``[B, G, M, D]``, of which a row's first ``lengths`` are read.
        values: as keys; all three may be views of one ``[B, S, W, D]``.
        lengths: int32 or int64 ``[B]``; what lies behind M is as if it were padding.
        causal: whether a query sees no position behind its own.
        scale: of the scores; 1/√D if not given.
        target: whose tiles it takes; the device's if not given.

    Returns:
        ``[B, H, S, D]``, a view of ``[B, S, H, D]`` where all three were views; zeros where a query sees nothing.

    Raises:
        ConfigError: there is no kernel for such heads.
        InputError: shapes, types, devices or layouts do not fit each other.
        MachineError: the device cannot run kernels in this process.
    """
    heads = heads_of(queries, keys, scale)
    batch, _, count, size = queries.shape
    require_shape("keys", keys, (batch, heads.kv_heads, keys.shape[2], size))
    require_shape("values", values, tuple(keys.shape))
    require_shape("lengths", lengths, (batch,))
    given, together = (queries, keys, values), lie_together(queries, keys, values)
    out = queries.new_empty((batch, count, heads.heads, size) if together else queries.shape)
    aim = target or target_of(queries.device)
    specialisation = specialise(heads, causal, aim, type_name(lengths.dtype), together)
    arguments: Arguments = {
        **dict(zip("qkv", map(in_one_line, given) if together else given, strict=True)),
        "lengths": lengths,
        "queries": count,
        "capacity": keys.shape[2],
        "out": out,
    }
    launch(specialisation, grid(specialisation, batch, count), arguments)
    return out.transpose(1, 2) if together else out
