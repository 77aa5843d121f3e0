import pytest
import torch

from attendant.errors import ConfigError, InputError, MachineError
from models.kernel_configs.decode_tiles import splits_for
from models.kernels.combine_splits import specialise
from models.kernels.compile import compile_kernel
from models.kernels.decode_append_attention import decode_append_attention
from models.kernels.decode_attention import decode_attention
from models.kernels.flash_attention import flash_attention
from models.kernels.window_attention import window_attention
from models.layers.rope import Rotation

QUERIES = torch.zeros(2, 4, 3, 16)
KEYS = torch.zeros(2, 2, 5, 16)
LENGTHS = torch.tensor([5, 4], dtype=torch.int32)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"keys": KEYS[:, :, :, :8]}, r"keys of shape \[2, 2, 5, 16\]"),
        ({"values": KEYS[:1]}, r"values of shape \[2, 2, 5, 16\]; found \[1, 2, 5, 16\]"),
        ({"keys": KEYS.half()}, r"k of Triton's type \*fp32; found torch.float16"),
        ({"lengths": LENGTHS[:1]}, r"lengths of shape \[2\]"),
        ({"queries": QUERIES.transpose(1, 2).contiguous().transpose(1, 2)}, "q contiguous"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(changed, message):
    arguments = {"queries": QUERIES, "keys": KEYS, "values": KEYS, "lengths": LENGTHS}
    with pytest.raises(InputError, match=message):
        flash_attention(**{**arguments, **changed})


@pytest.mark.parametrize(
    ("queries", "message"),
    [
        (torch.zeros(2, 3, 3, 16), "3 heads to be a multiple of kv_heads"),
        (torch.zeros(2, 4, 3, 16, dtype=torch.float64), "one of .*'float64'"),
        (torch.zeros(2, 4, 3, 300), "a head size of at most 256"),
    ],
)
def test_heads_without_a_kernel_are_refused(queries, message):
    with pytest.raises(ConfigError, match=message):
        flash_attention(queries, KEYS, KEYS, LENGTHS)


def test_more_rows_than_a_decode_kernel_holds_are_refused():
    with pytest.raises(ConfigError, match="1 to 16 rows a key head; found 18; use flash_attention"):
        decode_attention(torch.zeros(2, 4, 9, 16), KEYS, KEYS, LENGTHS)


def test_float32_heads_above_64_are_not_appended():
    q, cache = torch.zeros(2, 2, 1, 80), torch.zeros(2, 2, 5, 80)
    with pytest.raises(ConfigError, match="float32 heads of at most 64"):
        decode_append_attention(q, q, q, None, (cache, cache), LENGTHS)


def test_an_odd_head_cannot_be_turned():
    q, cache = torch.zeros(2, 2, 1, 15), torch.zeros(2, 2, 5, 15)
    angles = torch.zeros(2, 1, 1, 7)
    with pytest.raises(ConfigError, match="an even head size"):
        decode_append_attention(q, q, q, Rotation(angles, angles, "half"), (cache, cache), LENGTHS)


def test_a_map_that_is_no_multiple_of_the_window_is_refused():
    grid = torch.zeros(1, 6, 8, 12)
    with pytest.raises(InputError, match="pad the map first"):
        window_attention(grid, grid, grid, torch.zeros(3, 49), window=4)


def test_a_process_that_interprets_compiles_nothing():
    with pytest.raises(MachineError, match="unset TRITON_INTERPRET"):
        compile_kernel(specialise(64, 4, "float16"), "sm_80")


@pytest.mark.parametrize(
    ("groups", "capacity", "splits"),
    [(1, 8192, 32), (8, 8192, 32), (8, 65536, 48), (128, 4096, 3), (256, 8192, 3), (1000, 8192, 1), (1, 100, 1)],
)
def test_splits_fill_a_gpu_of_132_multiprocessors_and_no_more(groups, capacity, splits):
    assert splits_for(groups, capacity, multiprocessors=132) == splits
