"""What Triton compiles at a launch on a GPU: not what is compiled ahead of time, for a number 1 is a constant there."""

from importlib import import_module

import pytest
from triton.backends.compiler import GPUTarget
from triton.runtime.driver import driver

from models.kernel_configs.gpu_targets import GPU_TARGETS
from models.kernels.launch import keywords
from tests.models.kernels.cases import additive, append, decode, flash, hopper_flash, windows

LAUNCHERS = ("flash_attention", "decode_attention", "decode_append_attention", "combine_splits", "window_attention")
LAUNCHERS += ("additive_attention", "hopper_flash_attention")
ONE = {"heads": 4, "kv_heads": 2, "size": 64, "queries": 1, "dtype": "float16", "causal": True, "splits": 2}
CALLS = {
    "flash_attention, one query": (flash, {**ONE, "capacity": 64, "lengths": [64]}),
    "hopper_flash_attention, one query": (hopper_flash, {**ONE, "device": "cpu", "capacity": 1, "lengths": [1]}),
    "decode_attention, one head a key head": (decode, {**ONE, "heads": 2, "capacity": 1, "lengths": [1]}),
    "decode_append_attention": (append, {**ONE, "capacity": 64, "lengths": [3]}),
    "window_attention, one window": (windows, {"dtype": "float16", "window": 1, "shift": 0, "down": 1, "across": 1}),
    "additive_attention, one position": (additive, {"dtype": "float16", "source": 1}),
}


class H100:
    """As much of Triton's driver as compiling takes."""

    def get_current_device(self):
        return "none here"  # under which what is compiled is remembered

    def get_current_stream(self, device):
        return 0

    def get_current_target(self):
        return GPUTarget("cuda", 90, 32)


@pytest.fixture
def made(monkeypatch):
    """Kernels that were compiled in the place of being launched."""
    kernels = []

    def compile_only(specialised, grid, arguments):
        kernels.append(specialised.kernel.warmup(**keywords(specialised, arguments), grid=grid))

    for stem in LAUNCHERS:
        module = import_module(f"models.kernels.{stem}")
        monkeypatch.setattr(module, "launch", compile_only)
        if hasattr(module, "target_of"):
            monkeypatch.setattr(module, "target_of", lambda device: GPU_TARGETS["sm_90"])
    monkeypatch.setattr(driver, "_active", H100())
    return kernels


@pytest.mark.filterwarnings("ignore")  # of results that nobody has written
@pytest.mark.parametrize("name", CALLS)
def test_a_launch_on_a_gpu_compiles_where_sizes_are_one(made, name):
    call, sizes = CALLS[name]
    call(**sizes)
    assert made and all(".target sm_90a" in kernel.asm["ptx"] for kernel in made)
    assert all(kernel.metadata.shared <= GPU_TARGETS["sm_90"].shared_bytes for kernel in made)
