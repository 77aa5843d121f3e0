"""What the processor decides of how a graph is run."""

import platform
import re
from functools import cache
from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")


@cache
def sums_of_bytes_overflow(cpuinfo: Path = _CPUINFO) -> bool:
    """Whether products of unsigned and signed bytes are summed in 16 bits: x86 with AVX2 and without VNNI.

    There two products of large bytes do not fit. ONNX Runtime can widen them instead, which takes twice the time.
    """
    try:
        known = cpuinfo.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return "avx2" in known and "vnni" not in known


def processor_name(cpuinfo: Path = _CPUINFO) -> str:
    """What the processor calls itself; of one that does not, its architecture."""
    try:
        named = re.search(r"^model name\s*: (.+)$", cpuinfo.read_text(encoding="utf-8", errors="replace"), re.MULTILINE)
    except OSError:
        named = None
    return named[1] if named else platform.machine()
