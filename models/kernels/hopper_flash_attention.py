"""Prefill on Hopper, for the torch runner: :mod:`flash_attention` by TMA, wgmma and warp groups of different tasks.

It computes what flash_attention computes, for heads of 64 and 128 in half precision. Its device code, in Gluon, is
hopper_partitions.py. No plugin has it: a host that is not Triton's launcher makes no descriptors for TMA.

Legend: B batch, S queries, M capacity of keys, H query heads, G key and value heads, D head size.
"""

from __future__ import annotations

import torch
from torch import Tensor

from attendant.config import require
from models.kernel_configs.gpu_targets import GpuTarget, target_of
from models.kernel_configs.heads import HeadsConfig, heads_of
from models.kernel_configs.specialisation import Specialisation, pointer, quotient_up, type_name
from models.kernel_configs.tuned import Tiles, find_tiles
from models.kernels.flash_attention import shape_of
from models.kernels.hopper_partitions import (
    HALF_QUERIES,
    LAUNCH_REGISTERS,
    WARPS,
    hopper_flash_attention_kernel,
)
from models.kernels.launch import Arguments, launch, require_shape

KERNEL = "hopper_flash_attention"
_QUERIES = 2 * HALF_QUERIES
_STAGES = {64: 3, 128: 2}
"""Head size → tiles of 128 keys and values: 112 and 160 KiB of shared memory with the queries."""
_ALIGNMENT = 16
"""Of what TMA reads, in bytes."""


def require_fit(heads: HeadsConfig, target: GpuTarget) -> None:
    """Refuse what there is no such kernel for.

    Raises:
        ConfigError: another GPU than Hopper, another head size than 64 and 128, or float32.
    """
    require(target.name == "sm_90", "sm_90, which has wgmma", target.name, "use flash_attention")
    require(heads.head_size in _STAGES, f"a head size of {' or '.join(map(str, _STAGES))}", heads.head_size)
    require(heads.bits == 16, "half precision", heads.dtype, "use flash_attention")


def tiles(heads: HeadsConfig, target: GpuTarget) -> Tiles:
    """What was timed on the target, or what fits its shared memory."""
    fitting = Tiles(queries=_QUERIES, keys=128, warps=WARPS, stages=_STAGES[heads.head_size])
    return find_tiles(target, KERNEL, shape_of(heads)) or fitting


def specialise(heads: HeadsConfig, causal: bool, target: GpuTarget, lengths: str = "int32") -> Specialisation:
    """The kernel for heads of one kind; arguments as :func:`models.kernels.flash_attention.specialise`.

    Raises:
        ConfigError: there is none.
    """
    require_fit(heads, target)
    tile, floats, size = tiles(heads, target), pointer(heads.dtype), heads.head_size
    known = heads.constants()
    return Specialisation(
        kernel=hopper_flash_attention_kernel,
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
            "BLOCK_T": tile.keys,
            "STAGES": tile.stages,
            **{name: known[name] for name in ("HEAD_SIZE", "SCALE_LOG2")},
        },
        warps=WARPS // 3,
        stages=tile.stages,
        boxes={
            "q": (1, HALF_QUERIES, size),
            "k": (1, tile.keys, size),
            "v": (1, tile.keys, size),
            "out": (1, HALF_QUERIES, size),
        },
        registers=LAUNCH_REGISTERS,
    )


def grid(specialisation: Specialisation, batch: int, queries: int) -> tuple[int, int]:
    """Blocks along each axis: all rows' longest tiles first."""
    return batch * specialisation.constants["HEADS"], quotient_up(queries, _QUERIES)


def hopper_flash_attention(
    queries: Tensor, keys: Tensor, values: Tensor, lengths: Tensor, causal: bool = False, scale: float | None = None
) -> Tensor:
    """Attend; arguments and result as :func:`models.kernels.flash_attention.flash_attention`.

    Raises:
        ConfigError: there is no such kernel for these heads or this GPU, or a tensor's address is no multiple of 16.
        InputError: shapes, types, devices or layouts do not fit each other.
        MachineError: the device cannot run kernels in this process.
    """
    heads = heads_of(queries, keys, scale)
    batch, _, count, size = queries.shape
    require_shape("keys", keys, (batch, heads.kv_heads, keys.shape[2], size))
    require_shape("values", values, tuple(keys.shape))
    require_shape("lengths", lengths, (batch,))
    specialisation = specialise(heads, causal, target_of(queries.device), type_name(lengths.dtype))
    for tensor in (queries, keys, values):
        require(tensor.numel() > 0, "a tensor that is not empty", list(tensor.shape), "use flash_attention")
        require(tensor.data_ptr() % _ALIGNMENT == 0, "an address that is a multiple of 16", tensor.data_ptr())
    out = torch.empty_like(queries)
    arguments: Arguments = {
        "q": queries,
        "k": keys,
        "v": values,
        "lengths": lengths,
        "queries": count,
        "capacity": keys.shape[2],
        "out": out,
    }
    launch(specialisation, grid(specialisation, batch, count), arguments)
    return out
