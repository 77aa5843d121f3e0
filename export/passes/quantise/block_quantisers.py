"""How a matrix is put into 8 or 4 bits, in blocks of a column.

    symmetric           W ≈ s q,         q in −8 … 7; the largest of a block, by size, is −8 s
    positive            W ≈ s q, s > 0,  q in −128 … 127 or −8 … 7, clipped; the s of least |W − s q|²
    half_quadratic      W ≈ s (q − z),   q in 0 … 15; z, no whole number, is fitted with less weight on outliers

Legend: W is [in, out]; s and z are [blocks, out].
Source: ONNX Runtime 1.31, mlas q4_dq.cpp; Badri and Shaji, Half-Quadratic Quantization of Large Machine Learning
Models, 2023.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass

import ml_dtypes
import numpy as np
import numpy.typing as npt
import onnx_ir as ir
import torch

FloatArray = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """A matrix in 8 or 4 bits.

    Attributes:
        levels: [in, out], int8, int4 or uint4.
        scale: [blocks, out].
        zero: [blocks, out], what stands for zero; none where it is 0.
        minimum: [blocks, out], what s q is lessened by, in the place of a zero.
    """

    levels: npt.NDArray[np.generic]
    scale: FloatArray
    zero: FloatArray | None = None
    minimum: FloatArray | None = None

    @property
    def block_size(self) -> int:
        """Numbers of a block that is not the last."""
        return len(self.levels) // len(self.scale)

    def whole_zero(self) -> tuple[FloatArray | None, FloatArray | None]:
        """What stands for zero as a level, and what each number of a block is then to be raised by; none where 0."""
        if self.minimum is not None:
            zero = np.divide(self.minimum, self.scale, out=np.zeros_like(self.scale), where=self.scale != 0)
        elif self.zero is not None:
            zero = self.zero
        else:
            return None, None
        whole: FloatArray = np.clip(np.rint(zero), 0, _LARGEST).astype(np.float32)
        shift = (whole - zero) * self.scale if self.minimum is None else whole * self.scale - self.minimum
        return whole, shift.astype(np.float32) if shift.any() else None

    def dequantise(self) -> FloatArray:
        """[in, out], where blocks divide a column."""
        blocked = self.levels.astype(np.float32).reshape(len(self.scale), -1, self.levels.shape[1])
        if self.zero is not None:
            blocked = blocked - self.zero[:, None]
        blocked = blocked * self.scale[:, None]
        if self.minimum is not None:
            blocked = blocked - self.minimum[:, None]
        return blocked.reshape(self.levels.shape)


_LARGEST = 15
_SHARES = {8: (1.0,), 4: (1.0, 0.95, 0.9, 0.85, 0.8, 0.75, 7 / 8)}
"""Bits → what may be the largest number that is not clipped, as shares of the largest; 7/8 has −8 reach it."""

Quantiser = Callable[[FloatArray, int], Blocks]
"""From a matrix and the numbers of a block to the matrix in 4 bits."""


def symmetric(matrix: FloatArray, block_size: int) -> Blocks:
    """Around zero, with a scale a block, whose sign is that of minus the largest: −8 has no counterpart."""
    inputs, outputs = matrix.shape
    padded = np.pad(matrix, ((0, -inputs % block_size), (0, 0))).reshape(-1, block_size, outputs)
    largest = np.take_along_axis(padded, np.abs(padded).argmax(1, keepdims=True), 1)
    scale = np.where(largest == 0, np.float32(1), largest / np.float32(-8))
    levels = np.clip(np.rint(padded / scale), -8, 7).reshape(-1, outputs)[:inputs]
    return Blocks(levels=levels.astype(ml_dtypes.int4), scale=scale[:, 0])


def positive(matrix: FloatArray, block_size: int, bits: int, dtype: ir.DataType) -> Blocks:
    """Around zero, with a scale above zero a block, which is a number of a narrower floating-point type.

    Args:
        matrix: [in, out].
        block_size: it divides the length of a column.
        bits: 8 or 4.
        dtype: of the scales.
    """
    whole = 2 ** (bits - 1) - 1
    blocked = matrix.reshape(-1, block_size, matrix.shape[1])
    largest = np.abs(blocked).max(1, keepdims=True)
    least, best, error = np.float32(dtype.tiny * dtype.eps), np.ones_like(largest), np.full_like(largest, np.inf)
    for share in _SHARES[bits]:
        rounded = (largest * np.float32(share / whole)).astype(dtype.numpy()).astype(np.float32)
        scale = np.maximum(np.where(largest == 0, np.float32(1), rounded), least)
        found = np.square(blocked - scale * _levels(blocked, scale, whole)).sum(1, keepdims=True)
        best = np.where(found < error, scale, best)
        error = np.minimum(error, found)
    levels = _levels(blocked, best, whole).reshape(matrix.shape)
    return Blocks(levels=levels.astype(np.int8 if bits == 8 else ml_dtypes.int4), scale=best[:, 0])


def half_quadratic(matrix: FloatArray, block_size: int) -> Blocks:
    """With a scale and a zero a block, by ONNX Runtime's own quantiser."""
    columns = torch.from_numpy(matrix.T.copy())
    root, silent = logging.getLogger(), logging.NullHandler()
    root.addHandler(silent)  # the module gives the root logger a handler of its own where there is none
    try:
        from onnxruntime.quantization import matmul_nbits_quantizer as library
    finally:
        root.removeHandler(silent)
    levels, scale, zero = library.HQQWeightOnlyQuantizer(
        library.HQQWeightOnlyQuantConfig(block_size=block_size)
    ).quantize_internal(columns, bits=4, group_size=block_size)
    kept = levels[:, : len(matrix)].T.contiguous().numpy()  # the quantiser pads the last block
    return Blocks(levels=kept.astype(ml_dtypes.uint4), scale=scale.T.numpy(), zero=zero.T.numpy())


def _levels(blocked: FloatArray, scale: FloatArray, whole: int) -> FloatArray:
    levels: FloatArray = np.clip(np.rint(blocked / scale), -whole - 1, whole)
    return levels
