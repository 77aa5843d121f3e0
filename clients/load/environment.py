"""Where a run took place: machine, versions, server."""

import importlib.metadata
import os
import platform
from pathlib import Path

_PACKAGES = ("grpcio", "tritonclient", "aiohttp", "numpy", "protobuf")
_PROCESSORS, _MEMORY = Path("/proc/cpuinfo"), Path("/proc/meminfo")


def describe_environment(server: str) -> dict[str, str]:
    """Name to value, of this machine and the address of the server."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    return {
        "server": server,
        "processor": _read_line(_PROCESSORS, "model name") or platform.processor() or "unknown",
        "cores": str(os.cpu_count()),
        "memory": _read_line(_MEMORY, "MemTotal"),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "load of the machine after the run": f"{load:.2f}",
        **{name: importlib.metadata.version(name) for name in _PACKAGES},
    }


def _read_line(path: Path, name: str) -> str:
    if not path.is_file():
        return ""
    lines = (line.partition(":") for line in path.read_text(encoding="utf-8").splitlines())
    return next((value.strip() for key, _, value in lines if key.strip() == name), "")
