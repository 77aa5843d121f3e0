import gguf
import numpy as np
import pytest

from models.checkpoints.importers.quantised.gguf_blocks import read_tensor
from models.checkpoints.importers.quantised.gguf_file import BLOCKS, read_gguf
from models.checkpoints.integers import Integers

ROWS, COLUMNS = 5, 512
HALVES = {"Q8_0": [0], "Q4_0": [0], "Q4_1": [0, 2], "Q4_K": [0, 2], "Q6_K": [208]}
"""Type → where the floating-point numbers of a block are."""


def random_bytes(kind):
    """Blocks of any content, but for their scales, which are numbers of either sign."""
    random, (numbers, size) = np.random.default_rng(7), BLOCKS[kind]
    data = random.integers(0, 256, (ROWS, COLUMNS // numbers, size), dtype=np.uint8)
    for at in HALVES[kind]:
        data[..., at : at + 2] = random.standard_normal((*data.shape[:2], 1)).astype(np.float16).view(np.uint8)
    return data.reshape(ROWS, -1)


def read(tmp_path, data, kind):
    writer = gguf.GGUFWriter(tmp_path / "one.gguf", "llama")
    writer.add_tensor("other", np.ones(3, np.float32))
    writer.add_tensor("one", data, raw_dtype=gguf.GGMLQuantizationType[kind])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return read_tensor(read_gguf(tmp_path / "one.gguf"), "one")


@pytest.mark.parametrize("kind", HALVES)
def test_integers_stand_for_the_very_numbers_of_gguf_py(kind, tmp_path):
    data = random_bytes(kind)
    found = read(tmp_path, data, kind)
    assert isinstance(found, Integers)
    wanted = gguf.quants.dequantize(data, gguf.GGMLQuantizationType[kind])
    assert np.array_equal(found.dequantise().numpy(), wanted)
    assert found.bits == (4 if "Q4" in kind else 8)


@pytest.mark.parametrize(("kind", "dtype"), [("F32", np.float32), ("F16", np.float16)])
def test_numbers_are_read_as_they_are(kind, dtype, tmp_path):
    wanted = np.random.default_rng(1).standard_normal((ROWS, 6)).astype(dtype)
    assert np.array_equal(read(tmp_path, wanted, kind).numpy(), wanted)


def test_bfloat16_is_the_upper_half_of_float32(tmp_path):
    wanted = np.random.default_rng(1).standard_normal((ROWS, 6)).astype(np.float32)
    wanted = (wanted.view(np.uint32) & 0xFFFF0000).view(np.float32)
    upper = (wanted.view(np.uint32) >> 16).astype(np.uint16)
    found = read(tmp_path, upper.view(np.uint8).reshape(ROWS, -1), "BF16")
    assert np.array_equal(found.float().numpy(), wanted)
