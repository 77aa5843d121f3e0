"""What the blocks of a GGUF file hold, as numbers or as integers.

    Q8_0    32 numbers      d · q                               q of 8 bits
    Q4_0    32              d · (q − 8)                         q of 4, the first half of a block in lower halves
    Q4_1    32              d · q + m                           the same
    Q4_K    8 × 32          (d · s) · q − (d' · m)              q of 4, s and m of 6
    Q6_K    16 × 16         (d · s) · (q − 32)                  q of 6, s of 8

Products of d with s or m are exact in float32. Levels of Q6_K are kept in 8 bits.
Source: ggml's ggml-common.h, the structs ``block_*``, and ``dequantize_row_*`` of ggml-quants.c.
"""

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from models.checkpoints.importers.quantised.gguf_file import BLOCKS, Bytes, GgufFile
from models.checkpoints.integers import Integers

_Floats = npt.NDArray[np.float32]


def read_tensor(file: GgufFile, name: str) -> Tensor | Integers:
    """One tensor; a matrix of integers as such.

    Args:
        file: which has it.
        name: of it.
    """
    stored, data = file.tensors[name], file.bytes_of(name)
    if stored.kind in _FLOATS:
        return torch.from_numpy(data).view(_FLOATS[stored.kind]).reshape(stored.shape)
    _, size = BLOCKS[stored.kind]
    found = _INTEGERS[stored.kind](data.reshape(len(data), -1, size))
    assert tuple(found.levels.shape) == (len(data), stored.shape[-1])
    return found


def _q8_0(blocks: Bytes) -> Integers:
    return _integers(8, blocks[..., 2:].view(np.int8), _half(blocks[..., :2]))


def _q4_0(blocks: Bytes) -> Integers:
    halves = np.concatenate((blocks[..., 2:] & 15, blocks[..., 2:] >> 4), -1)
    return _integers(4, halves.view(np.int8) - np.int8(8), _half(blocks[..., :2]))


def _q4_1(blocks: Bytes) -> Integers:
    halves = np.concatenate((blocks[..., 4:] & 15, blocks[..., 4:] >> 4), -1)
    return _integers(4, halves.view(np.int8), _half(blocks[..., :2]), -_half(blocks[..., 2:4]))


def _q4_k(blocks: Bytes) -> Integers:
    packed, words = blocks[..., 4:16], blocks[..., 16:].reshape(*blocks.shape[:2], 4, 32)
    first, second, both = packed[..., :4], packed[..., 4:8], packed[..., 8:]
    scales = np.concatenate((first & 63, (both & 15) | (first >> 6 << 4)), -1)
    minima = np.concatenate((second & 63, (both >> 4) | (second >> 6 << 4)), -1)
    levels = np.stack((words & 15, words >> 4), -2)  # [rows, blocks, 4, 2, 32]
    scale, minimum = _half(blocks[..., :2]) * scales, _half(blocks[..., 2:4]) * minima
    return _integers(4, levels.view(np.int8), scale, minimum)


def _q6_k(blocks: Bytes) -> Integers:
    low = blocks[..., :128].reshape(*blocks.shape[:2], 2, 1, 64)
    high = blocks[..., 128:192].reshape(*blocks.shape[:2], 2, 1, 32)
    lower = (low >> np.array([0, 4], np.uint8)[:, None] & 15).reshape(*blocks.shape[:2], 256)
    upper = (high >> np.array([0, 2, 4, 6], np.uint8)[:, None] & 3).reshape(*blocks.shape[:2], 256)
    scale = _half(blocks[..., 208:]) * blocks[..., 192:208].view(np.int8)
    return _integers(8, (lower | upper << 4).view(np.int8) - np.int8(32), scale)


def _half(pairs: Bytes) -> _Floats:
    numbers: _Floats = np.ascontiguousarray(pairs).view("<f2").astype(np.float32)
    return numbers


def _integers(bits: int, levels: npt.NDArray[np.int8], scale: _Floats, minimum: _Floats | None = None) -> Integers:
    def rows(part: npt.NDArray[np.generic]) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(part).reshape(len(levels), -1))

    return Integers(
        bits=4 if bits == 4 else 8,
        levels=rows(levels),
        scale=rows(scale),
        minimum=None if minimum is None else rows(minimum),
    )


_FLOATS = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
_INTEGERS: Mapping[str, Callable[[Bytes], Integers]] = {
    "Q8_0": _q8_0,
    "Q4_0": _q4_0,
    "Q4_1": _q4_1,
    "Q4_K": _q4_k,
    "Q6_K": _q6_k,
}
