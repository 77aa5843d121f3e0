"""The tritonserver of this machine: that of the nvidia-pytriton wheel, or NVIDIA's in /opt/tritonserver."""

import importlib.metadata
import importlib.util
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from attendant.errors import MachineError
from serving.triton.server.numpy_version import check_numpy
from serving.triton.server.python_library import library_directory, loader_trace, needed_library

SYSTEM_SERVER = Path("/opt/tritonserver/bin/tritonserver")
NVIDIA_DEVICE = Path("/dev/nvidiactl")


@dataclass(frozen=True, kw_only=True, slots=True)
class Installation:
    """What a server is started from.

    Attributes:
        server: the tritonserver program.
        backends: its folder of backends.
        stub: the Python backend's stub for our interpreter; None when the backends folder has one.
        libraries: directories that the loader must search first.
        gpu: whether the machine has an NVIDIA driver.
    """

    server: Path
    backends: Path
    stub: Path | None
    libraries: tuple[Path, ...]
    gpu: bool


def find_installation(server: Path | None = None, python_version: tuple[int, int] | None = None) -> Installation:
    """Find a tritonserver: the one named, else that of the nvidia-pytriton wheel, else NVIDIA's own.

    Args:
        server: a tritonserver program to use instead.
        python_version: the Python that runs the models, by default the one that runs this.

    Raises:
        MachineError: there is none, or it lacks what its Python backend needs.
    """
    if server is not None:
        return _system_installation(server)
    spec = importlib.util.find_spec("pytriton")  # finds, and does not import
    package = Path(spec.origin).parent if spec and spec.origin else None
    if package is not None:
        version = ".".join(map(str, python_version or sys.version_info[:2]))
        root = package / "tritonserver"
        check_numpy(importlib.metadata.version("numpy"))
        stub = _wheel_stub(root / "python_backend_stubs", version)
        needed = needed_library(loader_trace(stub))
        places = [sysconfig.get_config_var("LIBDIR"), str(Path(sys.base_prefix) / "lib")]
        interpreter = [Path(place) for place in dict.fromkeys(places) if place]
        own = None if needed is None else library_directory(needed, interpreter, version)
        return Installation(
            server=_require_path(root / "bin" / "tritonserver"),
            backends=_require_path(root / "backends"),
            stub=stub,
            libraries=(package.parent / "nvidia_pytriton.libs", *([own] if own else [])),
            gpu=NVIDIA_DEVICE.exists(),
        )
    return _system_installation(SYSTEM_SERVER)


def _wheel_stub(stubs: Path, version: str) -> Path:
    stub = stubs / version / "triton_python_backend_stub"
    if not stub.exists():
        found = ", ".join(sorted(path.name for path in stubs.glob("*.*"))) or "none"
        raise MachineError(
            f"a Python backend stub for Python {version}", f"stubs for {found}", "use one of those Pythons"
        )
    return stub


def _system_installation(server: Path) -> Installation:
    root = _require_path(server).resolve().parents[1]
    return Installation(
        server=server,
        backends=_require_path(root / "backends"),
        stub=None,
        libraries=(),
        gpu=NVIDIA_DEVICE.exists(),
    )


def _require_path(path: Path) -> Path:
    if not path.exists():
        raise MachineError("an installed tritonserver", f"nothing at {path}", 'run `pip install "attendant[cpu]"`')
    return path
