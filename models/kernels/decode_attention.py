"""Attention of one or a few new positions to a long cache, which is cut into splits that are read side by side.

    part[j] = attention to split j of a row        base[j] = log₂ of the sum that it was divided by
    out = Σ_j 2^base[j] part[j] / Σ_j 2^base[j]        (combine_splits.py, a second kernel)

One program a key and value head and a split: the query heads that share a head's keys read them together. A split is an
equal part of what a row has, not of the capacity. Every query of a decoder step and, not causal, the one query of a
recurrent decoder over a padded source are this kernel's, so that there is none for cross-attention alone.

Legend: B batch, S new positions, M capacity, H query heads, G key and value heads, R = S H / G rows that share a head,
D head size, N splits.
Source: Dao et al. 2023, "Flash-Decoding for long-context inference"; Pope et al. 2022, section 3.3 (shared heads).
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from models.kernel_configs.decode_tiles import decode_constants, rows_of
from models.kernel_configs.gpu_targets import GpuTarget, target_of
from models.kernel_configs.heads import HeadsConfig, heads_of
from models.kernel_configs.specialisation import Specialisation, pointer, type_name
from models.kernels.combine_splits import combine_splits
from models.kernels.launch import Arguments, launch, require_shape
from models.kernels.online_softmax import average, load_rows, nothing_seen, see, store_rows


@triton.jit
def split_of(length: tl.tensor, split: tl.tensor, SPLITS: tl.constexpr, BLOCK_T: tl.constexpr) -> tl.tensor:
    """First key of a split and the first behind it: tiles of keys are divided as evenly as whole tiles can be."""
    tiles = tl.cdiv(length, BLOCK_T)
    first = tiles * split // SPLITS * BLOCK_T
    return first, tl.minimum(tiles * (split + 1) // SPLITS * BLOCK_T, length)


@triton.jit
def masked_scores(
    q_RD: tl.tensor,
    k_TD: tl.tensor,
    t_T: tl.tensor,
    s_R: tl.tensor,
    readable: tl.tensor,
    past: tl.tensor,
    CAUSAL: tl.constexpr,
    PRECISION: tl.constexpr,
) -> tl.tensor:
    """Products of queries and keys; −∞ where a key is not readable or, if causal, lies behind ``past`` + s."""
    seen_RT = (t_T < readable)[None, :]
    if CAUSAL:
        seen_RT = seen_RT & (t_T[None, :] <= (s_R + past)[:, None])
    return tl.where(seen_RT, tl.dot(q_RD, tl.trans(k_TD), input_precision=PRECISION), -float("inf"))


@triton.jit
def store_part(
    parts: tl.tensor,
    bases: tl.tensor,
    part: tl.tensor,
    rows: tl.tensor,
    maximum_R: tl.tensor,
    total_R: tl.tensor,
    weighted_RD: tl.tensor,
    HEAD_SIZE: tl.constexpr,
    BLOCK_R: tl.constexpr,
    BLOCK_D: tl.constexpr,
) -> None:
    """Write one split's means ``[R, D]`` and bases ``[R]``; −∞ where a row has seen nothing."""
    r_R = tl.arange(0, BLOCK_R)
    first = part.to(tl.int64) * rows
    store_rows(parts + first * HEAD_SIZE, r_R, r_R < rows, average(weighted_RD, total_R), HEAD_SIZE, BLOCK_D)
    base_R = maximum_R + tl.log2(tl.where(total_R == 0.0, 1.0, total_R))
    tl.store(bases + first + r_R, base_R, mask=r_R < rows)


@triton.jit
def decode_attention_kernel(
    q: tl.tensor,
    k: tl.tensor,
    v: tl.tensor,
    lengths: tl.tensor,
    queries: tl.tensor,
    capacity: tl.tensor,
    parts: tl.tensor,
    bases: tl.tensor,
    HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    HEAD_SIZE: tl.constexpr,
    CAUSAL: tl.constexpr,
    SCALE_LOG2: tl.constexpr,
    SPLITS: tl.constexpr,
    BLOCK_R: tl.constexpr,
    BLOCK_T: tl.constexpr,
    BLOCK_D: tl.constexpr,
    PRECISION: tl.constexpr,
) -> None:
    """See the module; ``parts`` is float32 ``[B, G, N, R, D]``, ``bases`` float32 ``[B, G, N, R]``."""
    group, split = tl.program_id(0), tl.program_id(1)
    rows = queries * (HEADS // KV_HEADS)
    length = tl.load(lengths + group // KV_HEADS).to(tl.int32)
    r_R = tl.arange(0, BLOCK_R)
    q_RD = load_rows(q + group.to(tl.int64) * rows * HEAD_SIZE, r_R, r_R < rows, HEAD_SIZE, BLOCK_D)
    k_MD = k + group.to(tl.int64) * capacity * HEAD_SIZE
    v_MD = v + group.to(tl.int64) * capacity * HEAD_SIZE
    readable = tl.minimum(length, capacity)
    first, behind = split_of(readable, split, SPLITS, BLOCK_T)
    maximum_R, total_R, weighted_RD = nothing_seen(BLOCK_R, BLOCK_D)
    for tile in range(first, behind, BLOCK_T):
        t_T = tile + tl.arange(0, BLOCK_T)
        k_TD = load_rows(k_MD, t_T, t_T < readable, HEAD_SIZE, BLOCK_D)
        scores_RT = masked_scores(q_RD, k_TD, t_T, r_R % queries, readable, length - queries, CAUSAL, PRECISION)
        v_TD = load_rows(v_MD, t_T, t_T < readable, HEAD_SIZE, BLOCK_D)
        maximum_R, total_R, weighted_RD = see(scores_RT, v_TD, maximum_R, total_R, weighted_RD, SCALE_LOG2, PRECISION)
    part = group * SPLITS + split
    store_part(parts, bases, part, rows, maximum_R, total_R, weighted_RD, HEAD_SIZE, BLOCK_R, BLOCK_D)


def specialise(
    heads: HeadsConfig, causal: bool, rows: int, splits: int, target: GpuTarget, lengths: str = "int32"
) -> Specialisation:
    """The kernel for heads of one kind.

    Args:
        heads: of queries, keys and values.
        causal: whether a query sees no position behind its own.
        rows: R at most, which :func:`models.kernel_configs.decode_tiles.most_rows` limits.
        splits: N.
        target: what it will run on.
        lengths: type of the lengths.

    Raises:
        ConfigError: too many rows, or no splits.
    """
    floats = pointer(heads.dtype)
    constants, warps, stages = decode_constants(heads, rows, splits, target)
    return Specialisation(
        kernel=decode_attention_kernel,
        types={
            "q": floats,
            "k": floats,
            "v": floats,
            "lengths": pointer(lengths),
            "queries": "i32",
            "capacity": "i32",
            "parts": "*fp32",
            "bases": "*fp32",
        },
        constants={**constants, "CAUSAL": causal},
        warps=warps,
        stages=stages,
    )


def grid(specialisation: Specialisation, batch: int) -> tuple[int, int]:
    """Blocks along each axis; the batch may be TensorRT's symbol."""
    constants = specialisation.constants
    return batch * constants["KV_HEADS"], constants["SPLITS"]


def decode_attention(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    lengths: Tensor,
    causal: bool = True,
    scale: float | None = None,
    splits: int = 8,
) -> Tensor:
    """Attend.

    Args:
        queries: ``[B, H, S, D]``; if causal, the last S of each row's positions.
        keys: cache ``[B, G, M, D]``, of which a row's first ``lengths`` are read.
        values: as keys.
        lengths: int32 or int64 ``[B]``; what lies behind M is as if it were padding.
        causal: whether a query sees no position behind its own.
        scale: of the scores; 1/√D if not given.
        splits: N; :func:`models.kernel_configs.decode_tiles.splits_for` says how many fill a GPU.

    Returns:
        ``[B, H, S, D]``; zeros where a query sees nothing.

    Raises:
        ConfigError: there is no kernel for such heads, or for so many rows.
        InputError: shapes, types, devices or layouts do not fit each other.
        MachineError: the device cannot run kernels in this process.
    """
    heads = heads_of(queries, keys, scale)
    batch, _, count, size = queries.shape
    require_shape("keys", keys, (batch, heads.kv_heads, keys.shape[2], size))
    require_shape("values", values, tuple(keys.shape))
    require_shape("lengths", lengths, (batch,))
    rows = rows_of(heads, count)
    parts = queries.new_empty((batch, heads.kv_heads, splits, rows, size), dtype=torch.float32)
    bases = queries.new_empty((batch, heads.kv_heads, splits, rows), dtype=torch.float32)
    specialisation = specialise(heads, causal, rows, splits, target_of(queries.device), type_name(lengths.dtype))
    arguments: Arguments = {
        "q": queries,
        "k": keys,
        "v": values,
        "lengths": lengths,
        "queries": count,
        "capacity": keys.shape[2],
        "parts": parts,
        "bases": bases,
    }
    launch(specialisation, grid(specialisation, batch), arguments)
    return combine_splits(parts, bases, torch.empty_like(queries))
