"""What an engine embeds of a plugin: its kernel as PTX, and how TensorRT shall launch it.

The grid is computed by the kernel's own ``grid``: PyTorch's launcher calls it with numbers, TensorRT with symbols.
A block takes at most 48 KiB of shared memory, with tiles for so much and, if need be, fewer loads ahead: nobody has
told whether TensorRT asks the driver for leave to use more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

import tensorrt.plugin as trtp

from attendant.errors import ExportError
from export.tensorrt.plugins.sources import source_hash
from models.kernel_configs.gpu_targets import WITHOUT_LEAVE_BYTES, GpuTarget, gpu_target
from models.kernel_configs.specialisation import Specialisation
from models.kernels.compile import CompiledKernel, compile_to_fit

Launch = tuple[str, str, Any, Any]
"""Of a kernel: its name, PTX, ``KernelLaunchParams`` and ``SymIntExprs``."""


@dataclass(slots=True)
class KernelEmbedding:
    """The kernels of the engines that are being built.

    Attributes:
        target: the GPU that shall run them, with the shared memory that tiles are chosen for.
        kernels: specialisation → compiled.
        plugins: plugin → the kernels that it has embedded.
    """

    target: GpuTarget
    kernels: dict[str, CompiledKernel] = field(default_factory=dict)
    plugins: dict[str, set[str]] = field(default_factory=dict)

    def compile(self, plugin: str, specialised: Specialisation) -> CompiledKernel:
        """A plugin's kernel, compiled once.

        Raises:
            ExportError: it does not fit the target.
        """
        constants = sorted((name, repr(value)) for name, value in specialised.constants.items())
        kernel = specialised.kernel.__name__
        key = repr((kernel, list(specialised.types.items()), constants, specialised.warps, specialised.stages))
        if key not in self.kernels:
            self.kernels[key] = compile_to_fit(specialised, self.target.name, WITHOUT_LEAVE_BYTES)
        self.plugins.setdefault(plugin, set()).add(key)
        return self.kernels[key]

    def hashes(self) -> dict[str, str]:
        """Plugin → SHA-256 over the sources of its kernel, how it was specialised, and the PTX that came of it."""
        return {
            plugin: sha256("\n".join([source_hash(), *sorted(map(self._describe, keys))]).encode()).hexdigest()
            for plugin, keys in sorted(self.plugins.items())
        }

    def _describe(self, key: str) -> str:
        made = self.kernels[key]
        return "\n".join([key, made.target, str(made.threads), str(made.shared_bytes), made.ptx])


_current: list[KernelEmbedding] = []


@contextmanager
def embed_kernels(target: str) -> Iterator[KernelEmbedding]:
    """Compile every plugin's kernel for one target for as long as the context lasts.

    Args:
        target: ``sm_80`` to ``sm_121``.

    Yields:
        What is embedded meanwhile.

    Raises:
        UnknownNameError: there is no such target.
    """
    known = gpu_target(target)
    _current.append(KernelEmbedding(target=replace(known, shared_bytes=WITHOUT_LEAVE_BYTES)))
    try:
        yield _current[-1]
    finally:
        _current.pop()


def tiles_target() -> GpuTarget:
    """The target whose tiles a plugin's kernel takes.

    Raises:
        ExportError: none was named: TensorRT asks for a kernel outside of :func:`embed_kernels`.
    """
    return _current_embedding().target


def launch(plugin: str, specialised: Specialisation, grid: tuple[Any, ...], numbers: Mapping[str, Any]) -> Launch:
    """What ``aot_impl`` returns.

    Args:
        plugin: its name.
        specialised: its kernel.
        grid: blocks along each axis.
        numbers: the kernel's int32 arguments, symbols, by name.

    Raises:
        ExportError: they are not the kernel's, or the kernel does not fit the target.
    """
    wanted = [name for name, kind in specialised.types.items() if kind == "i32"]
    if list(numbers) != wanted:
        raise ExportError(f"the numbers {wanted} for plugin {plugin!r}", f"{list(numbers)}", "see its kernel")
    made = _current_embedding().compile(plugin, specialised)
    x, y, z = (*grid, 1, 1)[:3]
    parameters = trtp.KernelLaunchParams(
        grid_x=x, grid_y=y, grid_z=z, block_x=made.threads, shared_mem=made.shared_bytes
    )
    extra = trtp.SymIntExprs(len(numbers))
    for index, number in enumerate(numbers.values()):
        extra[index] = trtp.SymInt32(number)
    return made.name, made.ptx, parameters, extra


def _current_embedding() -> KernelEmbedding:
    if not _current:
        raise ExportError(
            "a target that plugins are compiled for", "none", "build within export.tensorrt.plugins.embedding"
        )
    return _current[-1]
