from dataclasses import replace

import pytest

from models.kernel_configs import tuned
from models.kernel_configs.decode_tiles import shape_of as step_shape
from models.kernel_configs.gpu_targets import GPU_TARGETS, WITHOUT_LEAVE_BYTES
from models.kernel_configs.heads import HeadsConfig
from models.kernel_configs.tuned import Tiles
from models.kernel_configs.window_tiles import WindowConfig
from models.kernels import decode_attention, flash_attention, window_attention

H100 = GPU_TARGETS["sm_90"]
NARROW = replace(H100, shared_bytes=WITHOUT_LEAVE_BYTES)
HEADS = HeadsConfig(heads=8, kv_heads=2, head_size=80, dtype="bfloat16", scale=1.0)
WINDOWS = WindowConfig.of(32, 3, 7, 3, True, None, "float16")
CHOSEN = Tiles(queries=32, keys=16, warps=2, stages=4)
KERNELS = {
    "flash_attention": (
        flash_attention.shape_of(HEADS),
        "16 bits, heads of 128",
        lambda target: flash_attention.specialise(HEADS, True, target),
        ("BLOCK_S", "BLOCK_T"),
    ),
    "decode_attention": (
        step_shape(HEADS, 20),
        "16 bits, heads of 128, 32 rows",
        lambda target: decode_attention.specialise(HEADS, True, 20, 4, target),
        ("BLOCK_R", "BLOCK_T"),
    ),
    "window_attention": (
        WINDOWS.shape,
        "16 bits, heads of 32, 64 places, cosines",
        lambda target: window_attention.specialise(WINDOWS, target),
        ("BLOCK_S", "BLOCK_T"),
    ),
}


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_kernel_takes_the_tiles_of_its_target_and_shape_alone(kernel, monkeypatch):
    shape, named, specialised, blocks = KERNELS[kernel]
    assert shape == named
    monkeypatch.setattr(tuned, "TABLE", {"sm_90": {kernel: {shape: CHOSEN, "another": CHOSEN}}})

    def taken(target):
        made = specialised(target)
        return *(made.constants[block] for block in blocks), made.warps, made.stages

    assert taken(H100) == (32, 16, 2, 4)
    assert taken(NARROW) != (32, 16, 2, 4) and taken(GPU_TARGETS["sm_100"]) != (32, 16, 2, 4)
    monkeypatch.setattr(tuned, "TABLE", {"sm_90 within 48 KiB": {kernel: {shape: CHOSEN}}})
    assert taken(NARROW) == (32, 16, 2, 4) and taken(H100) != (32, 16, 2, 4)


def test_the_table_beside_the_kernels_is_of_known_targets_and_kernels():
    names = {tuned.name_of(one) for target in GPU_TARGETS.values() for one in (target, _narrow(target))}
    assert tuned.read().keys() <= names
    assert all(kernels.keys() <= KERNELS.keys() for kernels in tuned.read().values())


def _narrow(target):
    return replace(target, shared_bytes=WITHOUT_LEAVE_BYTES)
