"""What the processor decides of how a graph is run."""

import os
import platform
import re
from functools import cache
from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")
AMX = frozenset({"amx_int8"})
"""Tiles of bytes, of Intel's processors since Sapphire Rapids."""


@cache
def sums_of_bytes_overflow(cpuinfo: Path = _CPUINFO) -> bool:
    """Whether products of unsigned and signed bytes are summed in 16 bits: x86 with AVX2 and without VNNI.

    There two products of large bytes do not fit. ONNX Runtime can widen them instead, which takes twice the time.
    """
    known = _known(cpuinfo)
    return "avx2" in known and "vnni" not in known


_LIMITS = {
    "SSE41": r"avx|fma|amx",
    "AVX": r"avx2|avx_vnni|avx512|fma|amx",
    "AVX2": r"avx_vnni|avx512|amx",
    "AVX2_VNNI": r"avx512|amx",
    "AVX2_VNNI_2": r"avx512|amx",
    "AVX512_CORE": r"avx_vnni|avx512_(vnni|bf16|fp16)|amx",
    "AVX512_CORE_VNNI": r"avx512_(bf16|fp16)|amx",
    "AVX512_CORE_BF16": r"avx512_fp16|amx",
    "AVX512_CORE_FP16": r"amx",
}
"""What oneDNN's limits forbid, by the beginnings of names in ``/proc/cpuinfo``."""


@cache
def has_instructions(wanted: frozenset[str], cpuinfo: Path = _CPUINFO) -> bool:
    """Whether the processor, and the system, know all of these, by their names in ``/proc/cpuinfo``.

    What oneDNN's ``ONEDNN_MAX_CPU_ISA`` forbids, it does not know: torch keeps to that as well, and OpenVINO in part.
    """
    limit = os.environ.get("ONEDNN_MAX_CPU_ISA", "")  # noqa: TID251  (a library's own variable, of its name)
    hidden = _LIMITS.get(limit.upper(), r"$^")
    known = {name for name in _known(cpuinfo).split() if not re.match(hidden, name)}
    return wanted <= known


def processor_name(cpuinfo: Path = _CPUINFO) -> str:
    """What the processor calls itself; of one that does not, its architecture."""
    named = re.search(r"^model name\s*: (.+)$", _known(cpuinfo), re.MULTILINE)
    return named[1] if named else platform.machine()


def _known(cpuinfo: Path) -> str:
    try:
        return cpuinfo.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
