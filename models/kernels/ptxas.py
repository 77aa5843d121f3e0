"""What NVIDIA's assembler, which Triton carries, makes of PTX: registers, and values that it could not keep in them.

A driver that compiles PTX when an engine is loaded has an assembler of its own, whose choices may differ.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from attendant.errors import ExportError

_OPTIONS = ("-v", "--regAllocOptLevel=2")
"""As Triton calls it: without the second, the assembler of CUDA 13 may spill to gain occupancy."""


@dataclass(frozen=True, slots=True)
class AssemblerReport:
    """Of one kernel.

    Attributes:
        registers: of one thread.
        spilled_bytes: written to and read from memory by one thread because registers ran out.
        stack_bytes: of one thread.
        losses: remarks on speed: that it runs ``wgmma`` one after another, or leaves ``setmaxnreg`` out.
    """

    registers: int
    spilled_bytes: int
    stack_bytes: int
    losses: tuple[str, ...] = ()


def assemble(ptx: str, architecture: str, tool: Path | None = None) -> AssemblerReport:
    """Assemble PTX and read the report.

    Args:
        ptx: of one kernel.
        architecture: as PTX names it: ``sm_90a``.
        tool: another ``ptxas`` than Triton's.

    Raises:
        ExportError: the assembler refuses it.
    """
    from triton.backends.nvidia.compiler import get_ptxas  # here, because it looks for the tool

    with TemporaryDirectory() as folder:
        source = Path(folder, "kernel.ptx")
        source.write_text(ptx)
        assembler = tool or get_ptxas(int(architecture.removeprefix("sm_").rstrip("af"))).path
        command = [str(assembler), *_OPTIONS, f"--gpu-name={architecture}", "-o", f"{source}.cubin", str(source)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ExportError(f"PTX for {architecture}", done.stderr.strip()[:500], "report the kernel and its constants")
    return AssemblerReport(
        registers=_number(done.stderr, r"Used (\d+) registers"),
        spilled_bytes=sum(_number(done.stderr, rf"(\d+) bytes spill {kind}") for kind in ("stores", "loads")),
        stack_bytes=_number(done.stderr, r"(\d+) bytes stack frame"),
        losses=tuple(line for line in done.stderr.splitlines() if "performance loss" in line.lower()),
    )


def _number(text: str, pattern: str) -> int:
    found = re.search(pattern, text)
    if found is None:
        raise ExportError(
            f"{pattern!r} in the assembler's report", repr(text[-300:]), "use the Triton of constraints.txt"
        )
    return int(found.group(1))
