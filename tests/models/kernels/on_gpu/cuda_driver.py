"""Launch PTX as a plugin's host does: through the CUDA driver, with the kernel's own arguments in their order.

``launch_by_driver`` stands in for ``models.kernels.launch.launch``: what a launcher would have Triton run is compiled
ahead of time for the GPU at hand and given to ``cuLaunchKernel``.
"""

import ctypes
from functools import cache

import torch
from torch import Tensor

from models.kernel_configs.gpu_targets import WITHOUT_LEAVE_BYTES, target_of
from models.kernels.compile import compile_kernel

MAX_DYNAMIC_SHARED_SIZE_BYTES = 8  # of CUfunction_attribute


def packed(types, arguments):
    """Arguments as the driver takes them, in the order of the types: pointers and int32 numbers."""
    values = []
    for name, kind in types.items():
        argument = arguments[name]
        pointer = isinstance(argument, Tensor)
        assert pointer == kind.startswith("*"), name
        values.append(ctypes.c_void_p(argument.data_ptr()) if pointer else ctypes.c_int32(argument))
    return values


def launch_by_driver(specialised, grid, arguments, driver=None):
    """Compile, load, launch on PyTorch's stream, and wait."""
    device = next(argument.device for argument in arguments.values() if isinstance(argument, Tensor))
    # Another Triton than constraints.txt's may run out of registers; what it makes must still be right.
    made = compile_kernel(specialised, target_of(device).name, spills_allowed=True)
    driver = driver or loaded_driver()
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    check(driver.cuModuleLoadData(ctypes.byref(module), made.ptx.encode()))
    check(driver.cuModuleGetFunction(ctypes.byref(function), module, made.name.encode()))
    if made.shared_bytes > WITHOUT_LEAVE_BYTES:
        leave = ctypes.c_int(MAX_DYNAMIC_SHARED_SIZE_BYTES), ctypes.c_int(made.shared_bytes)
        check(driver.cuFuncSetAttribute(function, *leave))
    values = packed(specialised.types, arguments)
    pointers = (ctypes.c_void_p * len(values))(
        *(ctypes.cast(ctypes.pointer(value), ctypes.c_void_p) for value in values)
    )
    blocks = [ctypes.c_uint(size) for size in (*grid, 1, 1)[:3]]
    threads = [ctypes.c_uint(size) for size in (made.threads, 1, 1)]
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream if device.type == "cuda" else None)
    shared = ctypes.c_uint(made.shared_bytes)
    check(driver.cuLaunchKernel(function, *blocks, *threads, shared, stream, pointers, None))
    if device.type == "cuda":
        torch.cuda.synchronize()
    check(driver.cuModuleUnload(module))


@cache
def loaded_driver():
    """The driver; its context is the one that PyTorch has made."""
    torch.cuda.init()
    torch.zeros(1, device="cuda")
    return ctypes.CDLL("libcuda.so.1")


def check(status):
    assert status == 0, f"the CUDA driver answers {status}"
