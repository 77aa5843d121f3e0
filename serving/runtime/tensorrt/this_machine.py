"""Which GPU, driver and TensorRT this machine has, asked of their own libraries, without any Python package.

Source: ``getInferLibVersion`` of NvInferRuntime.h, which is 10000 · major + 100 · minor + patch; CUDA's driver API.
"""

from __future__ import annotations

import ctypes
import re
from ctypes import byref, c_int, c_size_t
from pathlib import Path

from attendant.engine_manifest import Platform
from attendant.errors import MachineError

TENSORRT_LIBRARIES = ("libnvinfer.so.11", "libnvinfer.so.10")
CUDA_LIBRARY = "libcuda.so.1"
_KERNEL_MODULE = Path("/proc/driver/nvidia/version")
_CAPABILITY_MAJOR, _CAPABILITY_MINOR = 75, 76  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, …_MINOR
_LONGEST_NAME = 256


def this_platform() -> Platform:
    """What the first GPU of this machine is, and what runs engines on it.

    Raises:
        MachineError: there is no TensorRT, no driver or no GPU.
    """
    driver = _library((CUDA_LIBRARY,), "NVIDIA's driver", "run where `nvidia-smi` shows a GPU")
    _ask(driver, "cuInit", c_int(0))
    device = _integer(driver, "cuDeviceGet", c_int(0))
    name = ctypes.create_string_buffer(_LONGEST_NAME)
    _ask(driver, "cuDeviceGetName", name, c_int(_LONGEST_NAME), device)
    major, minor = (
        _integer(driver, "cuDeviceGetAttribute", c_int(which), device).value
        for which in (_CAPABILITY_MAJOR, _CAPABILITY_MINOR)
    )
    cuda = _integer(driver, "cuDriverGetVersion").value
    return Platform(
        tensorrt=tensorrt_version(),
        cuda=f"{cuda // 1000}.{cuda % 1000 // 10}",
        driver=_kernel_module(),
        gpu=name.value.decode(),
        capability=f"{major}.{minor}",
    )


def gpu_memory_bytes() -> int:
    """The memory of this machine's first GPU.

    Raises:
        MachineError: there is no driver or no GPU.
    """
    driver = _library((CUDA_LIBRARY,), "NVIDIA's driver", "run where `nvidia-smi` shows a GPU")
    _ask(driver, "cuInit", c_int(0))
    found = c_size_t()
    _ask(driver, "cuDeviceTotalMem_v2", byref(found), _integer(driver, "cuDeviceGet", c_int(0)))
    return found.value


def tensorrt_version() -> str:
    """The version of TensorRT's library, for instance ``11.4.0``.

    Raises:
        MachineError: there is none.
    """
    library = _library(TENSORRT_LIBRARIES, "TensorRT", "run in a container that holds it; see docs/guides/tensorrt.md")
    version = int(library.getInferLibVersion())
    return f"{version // 10000}.{version % 10000 // 100}.{version % 100}"


def _library(names: tuple[str, ...], what: str, remedy: str) -> ctypes.CDLL:
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise MachineError(f"{what} ({' or '.join(names)})", "no such library on this machine", remedy)


def _ask(driver: ctypes.CDLL, function: str, *arguments: object) -> None:
    status = getattr(driver, function)(*arguments)
    if status != 0:
        raise MachineError("a GPU that answers", f"{function} returned {status}", "run where `nvidia-smi` shows a GPU")


def _integer(driver: ctypes.CDLL, function: str, *arguments: object) -> c_int:
    value = c_int()
    _ask(driver, function, byref(value), *arguments)
    return value


def _kernel_module() -> str:
    try:
        found = re.search(r"Kernel Module(?: for \S+)?\s+(\d[\d.]*)", _KERNEL_MODULE.read_text(encoding="utf-8"))
    except OSError:
        return ""
    return found[1] if found else ""
