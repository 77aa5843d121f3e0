"""Take a prompt's queries, keys and values as projected: rotate them, and write keys and values into caches.

    out[b, h, i] = rotate(q[b, h, i], start[b] + i)
    cache[b, g, start[b] + i] = rotate(new[b, g, i], start[b] + i)        0 ≤ i < S, where it lies within the capacity

One launch in the place of twenty, before a prefill that attends to the caches. Few positions are attended to in the
same launch (decode_append_attention.py). What is new lies as there: ``[B, H, S, D]`` and ``[B, G, S, D]``, or as one
product makes it, ``[B, S, W, D]`` with W = H + 2 G.

Legend: B batch, S new positions, M capacity, H query heads, G key and value heads, D head size, F = D / 2 angles, W
heads of a position.
Source: as rotary.py and decode_append_attention.py.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from attendant.config import require
from models.kernel_configs.heads import HeadsConfig, heads_of
from models.kernel_configs.specialisation import Specialisation, pointer, quotient_up, type_name
from models.kernels.decode_append_attention import require_shapes
from models.kernels.launch import Arguments, in_one_line, launch, lie_together
from models.kernels.online_softmax import load_rows, store_rows
from models.kernels.rotary import load_rotated_rows
from models.layers.rope import Rotation

_NUMBERS = 4096
"""Of a program: some positions of one head."""


@triton.jit
def rotate_append_kernel(
    q: tl.tensor,
    new_k: tl.tensor,
    new_v: tl.tensor,
    cos: tl.tensor,
    sin: tl.tensor,
    start: tl.tensor,
    queries: tl.tensor,
    capacity: tl.tensor,
    out: tl.tensor,
    present_k: tl.tensor,
    present_v: tl.tensor,
    HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    HEAD_SIZE: tl.constexpr,
    LAYOUT: tl.constexpr,
    EVERY: tl.constexpr,
    BLOCK_S: tl.constexpr,
    BLOCK_D: tl.constexpr,
) -> None:
    """See the module; arguments as of :func:`models.kernels.decode_append_attention.decode_append_attention_kernel`."""
    tile, head, batch = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    i_S = tile * BLOCK_S + tl.arange(0, BLOCK_S)
    seen_S, angle_S, from_S = i_S < queries, batch * queries + i_S, i_S * EVERY
    past = tl.load(start + batch).to(tl.int32)
    fits_S = seen_S & (past + i_S < capacity)
    positions = batch.to(tl.int64) * queries
    if head < HEADS:
        first = positions * HEADS + head * queries if EVERY == 1 else positions * EVERY + head
        q_SD = load_rotated_rows(q + first * HEAD_SIZE, cos, sin, from_S, angle_S, seen_S, HEAD_SIZE, BLOCK_D, LAYOUT)
        store_rows(out + (positions * HEADS + head * queries) * HEAD_SIZE, i_S, seen_S, q_SD, HEAD_SIZE, BLOCK_D)
    else:
        group = (head - HEADS) % KV_HEADS
        first = positions * KV_HEADS + group * queries if EVERY == 1 else positions * EVERY + group
        cache = (batch.to(tl.int64) * KV_HEADS + group) * capacity * HEAD_SIZE
        if head < HEADS + KV_HEADS:
            k_SD = load_rotated_rows(
                new_k + first * HEAD_SIZE, cos, sin, from_S, angle_S, seen_S, HEAD_SIZE, BLOCK_D, LAYOUT
            )
            store_rows(present_k + cache, past + i_S, fits_S, k_SD, HEAD_SIZE, BLOCK_D)
        else:
            v_SD = load_rows(new_v + first * HEAD_SIZE, from_S, seen_S, HEAD_SIZE, BLOCK_D)
            store_rows(present_v + cache, past + i_S, fits_S, v_SD, HEAD_SIZE, BLOCK_D)


def specialise(heads: HeadsConfig, layout: str, start: str = "int32", together: bool = False) -> Specialisation:
    """The kernel for heads of one kind; arguments as of :func:`models.kernels.decode_append_attention.specialise`.

    Raises:
        ConfigError: an unknown layout, or an odd head that is to be turned.
    """
    require(layout in ("none", "half", "interleaved"), "a layout of none, half, interleaved", repr(layout))
    require(layout == "none" or heads.head_size % 2 == 0, "an even head size to turn", heads.head_size)
    floats = pointer(heads.dtype)
    angles = {} if layout == "none" else {"cos": "*fp32", "sin": "*fp32"}
    unused = {"cos": None, "sin": None} if layout == "none" else {}
    return Specialisation(
        kernel=rotate_append_kernel,
        types={
            **dict.fromkeys(("q", "new_k", "new_v"), floats),
            **angles,
            "start": pointer(start),
            **dict.fromkeys(("queries", "capacity"), "i32"),
            **dict.fromkeys(("out", "present_k", "present_v"), floats),
        },
        constants={
            "HEADS": heads.heads,
            "KV_HEADS": heads.kv_heads,
            "HEAD_SIZE": heads.head_size,
            "LAYOUT": layout,
            "EVERY": heads.heads + 2 * heads.kv_heads if together else 1,
            "BLOCK_S": _NUMBERS // heads.block,
            "BLOCK_D": heads.block,
            **unused,
        },
        warps=4,
        stages=1,
    )


def rotate_append(
    queries: Tensor,
    new_keys: Tensor,
    new_values: Tensor,
    rotation: Rotation | None,
    caches: tuple[Tensor, Tensor],
    start: Tensor,
) -> Tensor:
    """Rotate, and write the new positions into the caches.

    Args:
        queries: ``[B, H, S, D]``, not rotated.
        new_keys: ``[B, G, S, D]``, not rotated.
        new_values: as new keys; all three may be views of one ``[B, S, W, D]``.
        rotation: of the new positions, float32; nothing is rotated if None.
        caches: of keys and of values, ``[B, G, M, D]`` each, which are written.
        start: int32 or int64 ``[B]``, how many positions each row has; what would lie behind M is dropped.

    Returns:
        The queries, rotated, ``[B, H, S, D]``.

    Raises:
        ConfigError: there is no kernel for such heads.
        InputError: shapes, types, devices or layouts do not fit each other.
        MachineError: the device cannot run kernels in this process.
    """
    heads = heads_of(queries, new_keys, None)
    batch, _, count, _ = queries.shape
    require_shapes(heads, queries, new_keys, new_values, rotation, caches, start)
    layout, new = "none" if rotation is None else rotation.layout, (queries, new_keys, new_values)
    together = lie_together(*new)
    specialisation = specialise(heads, layout, type_name(start.dtype), together)
    turned = queries.new_empty(queries.shape)
    arguments: Arguments = {
        **dict(zip(("q", "new_k", "new_v"), map(in_one_line, new) if together else new, strict=True)),
        "start": start,
        "queries": count,
        "capacity": caches[0].shape[2],
        "out": turned,
        "present_k": caches[0],
        "present_v": caches[1],
    }
    if rotation is not None:
        arguments |= {"cos": rotation.cos, "sin": rotation.sin}
    tiles = quotient_up(count, specialisation.constants["BLOCK_S"])
    launch(specialisation, (tiles, heads.heads + 2 * heads.kv_heads, batch), arguments)
    return turned
