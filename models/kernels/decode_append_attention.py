"""Decode attention that takes new keys and values as projected: rotated, attended to and written in one launch.

    cache[b, g, start[b] + i] = rotate(new[b, g, i], start[b] + i)        0 ≤ i < S, where it lies within the capacity
    out = decode_attention(rotate(q), cache, start + S), causal        (decode_attention.py, combine_splits.py)

The splits are of the past; the program of the last one writes the new positions too, and attends to them from its
registers: no program reads what another writes. Past and present caches are one buffer; a plugin declares them aliased.

What is new is ``[B, H, S, D]`` and ``[B, G, S, D]``, or lies as one product makes it: ``[B, S, W, D]``, whose heads of
a position are the queries', the keys' and the values', so that W = H + 2 G.

Legend: B batch, S new positions, M capacity, H query heads, G key and value heads, D head size, F = D / 2 angles, N
splits (and new positions of a tile), R = S H / G rows that share a head, W heads of a position.
Source: as decode_attention.py and rotary.py.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from attendant.config import require
from models.kernel_configs.decode_tiles import decode_constants, rows_of
from models.kernel_configs.gpu_targets import GpuTarget, target_of
from models.kernel_configs.heads import HeadsConfig, heads_of
from models.kernel_configs.specialisation import Specialisation, pointer, power_of_two, type_name
from models.kernels.combine_splits import combine_splits
from models.kernels.decode_attention import grid, masked_scores, split_of, store_part
from models.kernels.launch import Arguments, in_one_line, launch, lie_together, require_shape
from models.kernels.online_softmax import load_rows, nothing_seen, see, store_rows
from models.kernels.rotary import load_rotated_rows
from models.layers.rope import Rotation


@triton.jit
def decode_append_attention_kernel(
    q: tl.tensor,
    new_k: tl.tensor,
    new_v: tl.tensor,
    cos: tl.tensor,
    sin: tl.tensor,
    past_k: tl.tensor,
    past_v: tl.tensor,
    start: tl.tensor,
    queries: tl.tensor,
    capacity: tl.tensor,
    parts: tl.tensor,
    bases: tl.tensor,
    present_k: tl.tensor,
    present_v: tl.tensor,
    HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    HEAD_SIZE: tl.constexpr,
    LAYOUT: tl.constexpr,
    EVERY: tl.constexpr,
    SCALE_LOG2: tl.constexpr,
    SPLITS: tl.constexpr,
    BLOCK_R: tl.constexpr,
    BLOCK_T: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_D: tl.constexpr,
    PRECISION: tl.constexpr,
) -> None:
    """See the module; ``cos`` and ``sin`` are ``[B, S, F]`` of the new positions, ``start`` is ``[B]``.

    EVERY is how many rows of D lie between two positions of a head: W where what is new is ``[B, S, W, D]``, of which
    each pointer shows its first head, and otherwise 1.
    """
    group, split = tl.program_id(0), tl.program_id(1)
    batch = group // KV_HEADS
    rows = queries * (HEADS // KV_HEADS)
    past = tl.minimum(tl.load(start + batch).to(tl.int32), capacity)
    r_R = tl.arange(0, BLOCK_R)
    s_R, angle = r_R % queries, batch * queries
    if EVERY == 1:
        q_MD = q + group.to(tl.int64) * rows * HEAD_SIZE
        q_R = r_R
    else:
        of_batch, of_group = batch.to(tl.int64) * queries * EVERY, group % KV_HEADS
        q_MD = q + (of_batch + of_group * (HEADS // KV_HEADS)) * HEAD_SIZE
        q_R = s_R * EVERY + r_R // queries
    q_RD = load_rotated_rows(q_MD, cos, sin, q_R, angle + s_R, r_R < rows, HEAD_SIZE, BLOCK_D, LAYOUT)
    cache = group.to(tl.int64) * capacity * HEAD_SIZE
    first, behind = split_of(past, split, SPLITS, BLOCK_T)
    maximum_R, total_R, weighted_RD = nothing_seen(BLOCK_R, BLOCK_D)
    for tile in range(first, behind, BLOCK_T):
        t_T = tile + tl.arange(0, BLOCK_T)
        k_TD = load_rows(past_k + cache, t_T, t_T < past, HEAD_SIZE, BLOCK_D)
        scores_RT = masked_scores(q_RD, k_TD, t_T, s_R, past, past, False, PRECISION)
        v_TD = load_rows(past_v + cache, t_T, t_T < past, HEAD_SIZE, BLOCK_D)
        maximum_R, total_R, weighted_RD = see(scores_RT, v_TD, maximum_R, total_R, weighted_RD, SCALE_LOG2, PRECISION)
    if split == SPLITS - 1:
        i_N = tl.arange(0, BLOCK_N)
        fits = tl.minimum(queries, capacity - past)
        new = group * queries * HEAD_SIZE if EVERY == 1 else (of_batch + of_group) * HEAD_SIZE
        new_N = i_N * EVERY
        k_ND = load_rotated_rows(new_k + new, cos, sin, new_N, angle + i_N, i_N < fits, HEAD_SIZE, BLOCK_D, LAYOUT)
        v_ND = load_rows(new_v + new, new_N, i_N < fits, HEAD_SIZE, BLOCK_D)
        store_rows(present_k + cache, past + i_N, i_N < fits, k_ND, HEAD_SIZE, BLOCK_D)
        store_rows(present_v + cache, past + i_N, i_N < fits, v_ND, HEAD_SIZE, BLOCK_D)
        scores_RN = masked_scores(q_RD, k_ND, i_N, s_R, fits, 0, True, PRECISION)
        maximum_R, total_R, weighted_RD = see(scores_RN, v_ND, maximum_R, total_R, weighted_RD, SCALE_LOG2, PRECISION)
    part = group * SPLITS + split
    store_part(parts, bases, part, rows, maximum_R, total_R, weighted_RD, HEAD_SIZE, BLOCK_R, BLOCK_D)


def specialise(
    heads: HeadsConfig,
    layout: str,
    rows: int,
    splits: int,
    target: GpuTarget,
    start: str = "int32",
    together: bool = False,
) -> Specialisation:
    """The kernel for heads of one kind.

    Args:
        heads: of queries, keys and values.
        layout: which dimensions are turned together: ``half``, ``interleaved``; ``none`` turns none, and takes
            neither cosines nor sines.
        rows: R at most, which :func:`models.kernel_configs.decode_tiles.most_rows` limits.
        splits: N.
        target: what it will run on.
        start: type of the starts.
        together: whether what is new is one tensor ``[B, S, W, D]``.

    Raises:
        ConfigError: an unknown layout, an odd head that is to be turned, too large heads of float32, too many rows,
            or no splits.
    """
    require(layout in ("none", "half", "interleaved"), "a layout of none, half, interleaved", repr(layout))
    require(layout == "none" or heads.head_size % 2 == 0, "an even head size to turn", heads.head_size)
    fits = heads.dtype != "float32" or heads.block <= 64  # more would spill registers
    require(fits, "float32 heads of at most 64", heads.head_size, "write the cache first, and use decode_attention")
    constants, warps, stages = decode_constants(heads, rows, splits, target)
    most_queries = rows * heads.kv_heads // heads.heads
    floats = pointer(heads.dtype)
    angles = {} if layout == "none" else {"cos": "*fp32", "sin": "*fp32"}
    unused = {"cos": None, "sin": None} if layout == "none" else {}
    return Specialisation(
        kernel=decode_append_attention_kernel,
        types={
            **dict.fromkeys(("q", "new_k", "new_v"), floats),
            **angles,
            **dict.fromkeys(("past_k", "past_v"), floats),
            "start": pointer(start),
            "queries": "i32",
            "capacity": "i32",
            **dict.fromkeys(("parts", "bases"), "*fp32"),
            **dict.fromkeys(("present_k", "present_v"), floats),
        },
        constants={
            **constants,
            "LAYOUT": layout,
            "EVERY": heads.heads + 2 * heads.kv_heads if together else 1,
            "BLOCK_N": power_of_two(16, most_queries),
            **unused,
        },
        warps=warps,
        stages=stages,
    )


def decode_append_attention(
    queries: Tensor,
    new_keys: Tensor,
    new_values: Tensor,
    rotation: Rotation | None,
    caches: tuple[Tensor, Tensor],
    start: Tensor,
    scale: float | None = None,
    splits: int = 8,
) -> Tensor:
    """Attend, and write the new positions into the caches.

    Args:
        queries: ``[B, H, S, D]``, not rotated.
        new_keys: ``[B, G, S, D]``, not rotated.
        new_values: as new keys; all three may be views of one ``[B, S, W, D]``.
        rotation: of the new positions, float32; nothing is rotated if None.
        caches: of keys and of values, ``[B, G, M, D]`` each, which are written.
        start: int32 or int64 ``[B]``, how many positions each row has; what would lie behind M is dropped.
        scale: of the scores; 1/√D if not given.
        splits: N.

    Returns:
        ``[B, H, S, D]``.

    Raises:
        ConfigError: there is no kernel for such heads, or for so many rows.
        InputError: shapes, types, devices or layouts do not fit each other.
        MachineError: the device cannot run kernels in this process.
    """
    heads = heads_of(queries, new_keys, scale)
    batch, _, count, size = queries.shape
    require_shapes(heads, queries, new_keys, new_values, rotation, caches, start)
    rows = rows_of(heads, count)
    parts = queries.new_empty((batch, heads.kv_heads, splits, rows, size), dtype=torch.float32)
    bases = queries.new_empty((batch, heads.kv_heads, splits, rows), dtype=torch.float32)
    layout = "none" if rotation is None else rotation.layout
    new, target = (queries, new_keys, new_values), target_of(queries.device)
    together = lie_together(*new)
    specialisation = specialise(heads, layout, rows, splits, target, type_name(start.dtype), together)
    arguments: Arguments = {
        **dict(zip(("q", "new_k", "new_v"), map(in_one_line, new) if together else new, strict=True)),
        "past_k": caches[0],
        "past_v": caches[1],
        "start": start,
        "queries": count,
        "capacity": caches[0].shape[2],
        "parts": parts,
        "bases": bases,
        "present_k": caches[0],
        "present_v": caches[1],
    }
    if rotation is not None:
        arguments |= {"cos": rotation.cos, "sin": rotation.sin}
    launch(specialisation, grid(specialisation, batch), arguments)
    return combine_splits(parts, bases, queries.new_empty(queries.shape))


def require_shapes(
    heads: HeadsConfig,
    queries: Tensor,
    new_keys: Tensor,
    new_values: Tensor,
    rotation: Rotation | None,
    caches: tuple[Tensor, Tensor],
    start: Tensor,
) -> None:
    """Refuse arguments of :func:`decode_append_attention` whose shapes do not fit each other.

    Raises:
        InputError: they do not.
    """
    batch, _, count, size = queries.shape
    for name, tensor, positions in (
        ("new_keys", new_keys, count),
        ("new_values", new_values, count),
        ("the cache of keys", caches[0], caches[0].shape[2]),
        ("the cache of values", caches[1], caches[0].shape[2]),
    ):
        require_shape(name, tensor, (batch, heads.kv_heads, positions, size))
    require_shape("start", start, (batch,))
    if rotation is not None:
        require_shape("cosines", rotation.cos, (batch, 1, count, size // 2))
        require_shape("sines", rotation.sin, (batch, 1, count, size // 2))
