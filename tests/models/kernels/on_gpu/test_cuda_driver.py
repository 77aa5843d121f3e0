"""The order of a launch, told to a driver that only writes down what it is asked."""

import ctypes

import torch

from models.kernel_configs.gpu_targets import GPU_TARGETS
from models.kernel_configs.heads import HeadsConfig
from models.kernels.flash_attention import grid, specialise
from tests.models.kernels.on_gpu.cuda_driver import MAX_DYNAMIC_SHARED_SIZE_BYTES, launch_by_driver, packed


class RecordingDriver:
    def __init__(self):
        self.calls = []

    def __getattr__(self, name):
        return lambda *arguments: self.calls.append((name, arguments)) or 0


def arguments_of_a_prefill():
    q, k = torch.zeros(2, 4, 300, 128).half(), torch.zeros(2, 2, 500, 128).half()
    lengths, out = torch.zeros(2, dtype=torch.int32), torch.zeros_like(q)
    return {"out": out, "q": q, "k": k, "v": k, "lengths": lengths, "capacity": 500, "queries": 300}


def specialisation():
    heads = HeadsConfig(heads=4, kv_heads=2, head_size=128, dtype="float16", scale=0.1)
    return specialise(heads, True, GPU_TARGETS["sm_80"])


def test_arguments_are_inputs_then_numbers_then_outputs():
    arguments = arguments_of_a_prefill()
    values = packed(specialisation().types, arguments)
    expected = [arguments[name] for name in ("q", "k", "v", "lengths", "queries", "capacity", "out")]
    assert [value.value for value in values] == [x if isinstance(x, int) else x.data_ptr() for x in expected]
    assert [type(value) for value in values[3:6]] == [ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32]


def test_the_kernel_is_loaded_given_leave_for_its_shared_memory_launched_and_unloaded():
    driver, made = RecordingDriver(), specialisation()
    launch_by_driver(made, grid(made, 2, 300), arguments_of_a_prefill(), driver)
    names = [name for name, _ in driver.calls]
    loaded = ["cuModuleLoadData", "cuModuleGetFunction"]
    assert names == [*loaded, "cuFuncSetAttribute", "cuLaunchKernel", "cuModuleUnload"]
    _, *sizes, _, pointers, extra = dict(driver.calls)["cuLaunchKernel"]
    blocks_threads_shared = [size.value for size in sizes]
    assert blocks_threads_shared[:6] == [3, 8, 1, 32 * made.warps, 1, 1]
    assert len(pointers) == len(made.types)
    assert extra is None
    shared = blocks_threads_shared[6]
    _, attribute, asked = dict(driver.calls)["cuFuncSetAttribute"]
    assert (attribute.value, asked.value) == (MAX_DYNAMIC_SHARED_SIZE_BYTES, shared)
