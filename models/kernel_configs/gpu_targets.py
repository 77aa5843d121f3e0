"""What kernels are compiled for: NVIDIA's compute capabilities, and the shared memory that a block may have there.

Source: CUDA C++ Programming Guide 13, "Technical Specifications per Compute Capability".
"""

from dataclasses import dataclass

import torch

from attendant.errors import UnknownNameError


@dataclass(frozen=True, slots=True)
class GpuTarget:
    """A compute capability.

    Attributes:
        capability: ten times the major version plus the minor one.
        shared_bytes: most shared memory of one block, with the driver's leave (``…OPTIN``).
        example: a product that has it.
    """

    capability: int
    shared_bytes: int
    example: str

    @property
    def name(self) -> str:
        """As NVIDIA's tools say it: ``sm_90``."""
        return f"sm_{self.capability}"

    @property
    def matrix_unit(self) -> str:
        """PTX's name of what multiplies; ``wgmma`` and ``tcgen05`` read a product's left side from shared memory."""
        return {9: "wgmma", 10: "tcgen05", 11: "tcgen05"}.get(self.capability // 10, "mma")


_ALL = (
    GpuTarget(80, 163 * 1024, "A100"),
    GpuTarget(86, 99 * 1024, "A10, RTX 3090"),
    GpuTarget(89, 99 * 1024, "L4, RTX 4090"),
    GpuTarget(90, 227 * 1024, "H100, H200"),
    GpuTarget(100, 227 * 1024, "B200"),
    GpuTarget(103, 227 * 1024, "B300"),
    GpuTarget(110, 227 * 1024, "Jetson Thor"),
    GpuTarget(120, 99 * 1024, "RTX 5090"),
    GpuTarget(121, 99 * 1024, "DGX Spark"),
)
GPU_TARGETS = {target.name: target for target in _ALL}
"""Every target that kernels are compiled for ahead of time, by its name."""
WITHOUT_LEAVE_BYTES = 48 * 1024
"""Shared memory that any launch may have; more only where whoever launches asks the driver for it."""


def gpu_target(name: str) -> GpuTarget:
    """A target by its name.

    Raises:
        UnknownNameError: there is none such.
    """
    if name not in GPU_TARGETS:
        known = ", ".join(GPU_TARGETS)
        raise UnknownNameError(f"one of {known}", repr(name), "name the compute capability of the GPU that will run it")
    return GPU_TARGETS[name]


def target_of(device: torch.device) -> GpuTarget:
    """The target whose code a device runs; the one with least shared memory for a CPU, which interprets.

    Raises:
        UnknownNameError: kernels are not tuned for the device.
    """
    if device.type != "cuda":
        return GPU_TARGETS["sm_86"]
    major, minor = torch.cuda.get_device_capability(device)
    return gpu_target(f"sm_{10 * major + minor}")
