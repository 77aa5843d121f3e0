import logging

import numpy as np
import onnx_ir as ir
import pytest
from onnxruntime.quantization.matmul_nbits_quantizer import (
    DefaultWeightOnlyQuantConfig,
    DefaultWeightOnlyQuantizer,
    QuantFormat,
)

from export.passes.quantise.block_quantisers import Blocks, half_quadratic, positive, symmetric

INPUTS, OUTPUTS = 100, 12
HALF = ir.DataType.FLOAT16


@pytest.fixture(scope="module")
def matrix():
    """Not a whole number of blocks, with a few outliers and a column of zeros."""
    values = np.random.default_rng(3).standard_t(4, (INPUTS, OUTPUTS)).astype(np.float32)
    values[:, 5] = 0
    return values


def restored(blocks, size):
    scale = np.repeat(blocks.scale, size, 0)[:INPUTS]
    zero = 0 if blocks.zero is None else np.repeat(blocks.zero, size, 0)[:INPUTS]
    return (blocks.levels.astype(np.float32) - zero) * scale


@pytest.mark.parametrize("size", [16, 32, 128])
def test_symmetric_levels_and_scales_are_those_of_onnx_runtime(matrix, size):
    blocks = symmetric(matrix, size)
    config = DefaultWeightOnlyQuantConfig(block_size=size, is_symmetric=True, quant_format=QuantFormat.QDQ)
    packed, scale, _ = DefaultWeightOnlyQuantizer(config).qbits_block_quant(matrix)
    halves = np.stack([packed & 15, packed >> 4], -1).reshape(matrix.shape).astype(np.int8)
    whole = np.delete(np.where(halves > 7, halves - 16, halves), 5, 1)
    assert np.abs(np.delete(blocks.levels.astype(np.int8), 5, 1) - whole).max() <= 1, "halves may round either way"
    np.testing.assert_allclose(np.delete(blocks.scale, 5, 1), np.delete(scale, 5, 1), rtol=1e-6)
    assert (restored(blocks, size)[:, 5] == 0).all()


@pytest.mark.parametrize("size", [16, 32, 128])
def test_the_error_is_half_a_step_and_a_whole_one_only_opposite_the_largest(matrix, size):
    blocks = symmetric(matrix, size)
    steps = np.abs(restored(blocks, size) - matrix) / np.abs(np.repeat(blocks.scale, size, 0)[:INPUTS])
    clipped = blocks.levels.astype(np.int8) == 7
    assert steps[~clipped].max() <= 0.5 + 1e-5
    assert steps.max() <= 1 + 1e-5


def test_scales_above_zero_lose_less_by_clipping_than_by_reaching_the_largest(matrix):
    square = [np.square(restored(one, 20) - matrix).sum() for one in (reaching(matrix), positive(matrix, 20, 4, HALF))]
    assert square[1] < 0.95 * square[0]


def reaching(matrix):
    largest = np.abs(matrix.reshape(-1, 20, OUTPUTS)).max(1)
    scale = np.where(largest == 0, 1, largest / 7).astype(np.float32)
    levels = np.rint(matrix.reshape(-1, 20, OUTPUTS) / scale[:, None]).reshape(matrix.shape)
    return Blocks(levels=levels, scale=scale)


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("factor", [1, 1e-5, 1e-9, 0])
def test_scales_are_above_zero_in_their_type_however_small_the_weights(matrix, bits, factor):
    blocks = positive(matrix * np.float32(factor), 20, bits, HALF)
    assert (blocks.scale.astype(np.float16) == blocks.scale).all() and (blocks.scale > 0).all()
    whole = 2 ** (bits - 1)
    levels = blocks.levels.astype(np.int8)
    assert levels.min() >= -whole and levels.max() <= whole - 1
    assert factor != 1 or levels.max() == whole - 1


def test_zeros_between_whole_numbers_fit_the_bulk_better(matrix):
    blocks = half_quadratic(matrix, 64)
    assert blocks.levels.dtype.name == "uint4"
    assert blocks.levels.shape == matrix.shape
    assert blocks.scale.shape == blocks.zero.shape == (2, OUTPUTS)
    assert (blocks.zero != np.rint(blocks.zero)).any()
    mean = [np.abs(restored(one, 64) - matrix).mean() for one in (blocks, symmetric(matrix, 64))]
    assert mean[0] < 0.9 * mean[1]


def test_the_quantiser_of_onnx_runtime_leaves_logging_as_it_was(matrix):
    before = logging.getLogger().level, list(logging.getLogger().handlers)
    half_quadratic(matrix, 64)
    assert (logging.getLogger().level, list(logging.getLogger().handlers)) == before
