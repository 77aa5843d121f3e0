"""Compile a kernel ahead of time: PTX for one target, held to what that target and an ahead-of-time plugin allow.

    source ──Triton──► PTX ──less Triton's scratch pointers──► PTX ──ptxas──► registers, spills

The PTX is the same wherever it is compiled: it names no file of the machine.
Source: pytorch/TensorRT pull request 4435 (scratch pointers, version of PTX); NVIDIA's sample of quick plugins.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from attendant.config import require
from attendant.errors import ExportError, MachineError
from models.kernel_configs.gpu_targets import GpuTarget, gpu_target
from models.kernel_configs.specialisation import Specialisation
from models.kernels.interpreter import interprets
from models.kernels.launch import FP_FUSION
from models.kernels.ptx import count_async_copies, parameters, without_last_parameters
from models.kernels.ptxas import AssemblerReport, assemble

_ALIGNMENT = [["tt.divisibility", 16]]
"""Of every tensor's first byte: CUDA's allocations are aligned to 256 bytes, and TensorRT's bindings must be."""
PTX_VERSION = 87
"""8.7, of CUDA 12.8, for every target that it knows. Triton's own assembler would have 9.4, which only the newest
drivers understand (``CUDA_ERROR_UNSUPPORTED_PTX_VERSION``)."""
_OLDEST_PTX = {
    "sm_80": 70,
    "sm_86": 71,
    "sm_89": 78,
    "sm_90": 80,
    "sm_100": 86,
    "sm_103": 88,
    "sm_110": 90,
    "sm_120": 87,
    "sm_121": 88,
}
"""The version of PTX that first knew a target (PTX ISA 9, section 11.1.2, table of releases)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledKernel:
    """What an engine embeds, and what a launch must know.

    Attributes:
        name: of the PTX entry.
        ptx: whose entry takes the arguments of the specialisation's ``types`` and nothing else, in that order.
        target: what it runs on, ``sm_90``.
        architecture: as the PTX states it, ``sm_90a``: the ``a`` binds it to this very capability.
        threads: of a block, all along x.
        shared_bytes: of a block; above 48 KiB the driver must be asked for leave.
        stages: tiles that a loop was allowed to have in flight.
        async_copies: instructions that load ahead into shared memory; none where a loop waits for what it loads.
        report: the assembler's.
    """

    name: str
    ptx: str
    target: str
    architecture: str
    threads: int
    shared_bytes: int
    stages: int
    async_copies: int
    report: AssemblerReport


def compile_kernel(
    specialised: Specialisation,
    target: str,
    *,
    ptx_version: int | None = None,
    shared_limit_bytes: int | None = None,
    spills_allowed: bool = False,
) -> CompiledKernel:
    """Compile, strip and check.

    Args:
        specialised: the kernel, its types and constants.
        target: ``sm_80`` to ``sm_121``.
        ptx_version: ten times major plus minor of the newest PTX that the driver to come understands; 8.7 if not given,
            or the first that knows the target.
        shared_limit_bytes: most shared memory of a block; what the target has if not given.
        spills_allowed: whether a kernel may keep values in memory because registers ran out.

    Raises:
        ConfigError: the version of PTX does not know the target.
        ExportError: the kernel needs scratch, more shared memory than there is, or spills. One with descriptors of TMA
            keeps Triton's own parameters, as only Triton launches it.
        MachineError: this process interprets kernels, and compiles none.
        UnknownNameError: no such target.
    """
    aim = gpu_target(target)
    if interprets():
        remedy = "unset TRITON_INTERPRET and start another process"
        raise MachineError("a process in which Triton compiles", "one in which it interprets", remedy)
    oldest = _OLDEST_PTX[aim.name]
    expected = f"PTX {oldest / 10} or newer for {aim.name}"
    ptx_version = max(PTX_VERSION, oldest) if ptx_version is None else ptx_version
    require(ptx_version >= oldest, expected, ptx_version / 10, "update the driver of the GPU")
    made = _compile_by_triton(specialised, aim, ptx_version)
    ptx = made.asm["ptx"] if specialised.boxes else strip_ptx(made.asm["ptx"], specialised.types, made.metadata)
    limit = aim.shared_bytes if shared_limit_bytes is None else shared_limit_bytes
    if made.metadata.shared > limit:
        remedy = f"choose smaller tiles or fewer stages for {aim.name} ({aim.example})"
        raise ExportError(f"at most {limit} bytes of shared memory", f"{made.metadata.shared}", remedy)
    architecture = made.asm["ptx"].split(".target ", 1)[1].split()[0].rstrip(",")
    report = assemble(ptx, architecture)
    if report.spilled_bytes and not spills_allowed:
        found = f"{report.spilled_bytes} bytes spilled at {report.registers} registers for {target}"
        raise ExportError(f"{made.metadata.name} within its registers", found, "choose smaller tiles or more warps")
    return CompiledKernel(
        name=made.metadata.name,
        ptx=ptx,
        target=target,
        architecture=architecture,
        threads=32 * made.metadata.num_warps,
        shared_bytes=made.metadata.shared,
        stages=specialised.stages,
        async_copies=count_async_copies(ptx),
        report=report,
    )


def compile_to_fit(specialised: Specialisation, target: str, shared_limit_bytes: int) -> CompiledKernel:
    """Compile with as many loads ahead as there is shared memory for.

    Args:
        specialised: whose ``stages`` are the most.
        target: ``sm_80`` to ``sm_121``.
        shared_limit_bytes: of a block.

    Raises:
        ExportError: it does not fit without any either.
        MachineError: as :func:`compile_kernel`.
        UnknownNameError: no such target.
    """
    for stages in range(specialised.stages, 1, -1):
        with suppress(ExportError):
            return compile_kernel(replace(specialised, stages=stages), target, shared_limit_bytes=shared_limit_bytes)
    return compile_kernel(replace(specialised, stages=1), target, shared_limit_bytes=shared_limit_bytes)


def strip_ptx(ptx: str, types: Mapping[str, str], metadata: Any) -> str:
    """PTX without Triton's scratch pointers.

    Args:
        ptx: as Triton wrote it.
        types: of the arguments that the kernel declares.
        metadata: Triton's, which says how much scratch the kernel uses.

    Raises:
        ExportError: it uses some, or the parameters are not those of the arguments and two pointers.
    """
    scratch = metadata.global_scratch_size + metadata.profile_scratch_size
    if scratch:
        raise ExportError(
            "a kernel without scratch memory", f"{scratch} bytes a block", "make no descriptor on the device"
        )
    extra = len(parameters(ptx)) - len(types)
    if extra != 2:
        found = f"{len(parameters(ptx))} parameters for {len(types)} arguments"
        raise ExportError("two pointers of Triton's after the arguments", found, "use the Triton of constraints.txt")
    return without_last_parameters(ptx, extra)


def _compile_by_triton(specialised: Specialisation, target: GpuTarget, ptx_version: int) -> Any:
    names, types, read_source = specialised.kernel.arg_names, dict(specialised.types), ASTSource
    if specialised.boxes:
        from models.kernels.tma import GluonASTSource, descriptor_type  # here, because Triton may lack Gluon

        types |= {name: descriptor_type(types[name], box) for name, box in specialised.boxes.items()}
        read_source = GluonASTSource
    source = read_source(
        fn=specialised.kernel,
        signature={name: types.get(name, "constexpr") for name in names},
        constexprs={(names.index(name),): value for name, value in specialised.constants.items()},
        attrs={(names.index(name),): _ALIGNMENT for name, kind in types.items() if kind.startswith("*")},
    )
    options = {
        "num_warps": specialised.warps,
        "num_stages": specialised.stages,
        "enable_fp_fusion": FP_FUSION,
        "ptx_version": ptx_version,
        "maxnreg": specialised.registers,
    }
    with triton.knobs.compilation.scope():
        triton.knobs.compilation.disable_line_info = True
        return triton.compile(source, target=GPUTarget("cuda", target.capability, 32), options=options)
