"""The server's own temporary folder: its log, and the backends folder that the wheel leaves unassembled."""

import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from serving.triton.server.installation import Installation
from serving.triton.server.shared_memory import is_orphan

ENVIRONMENTS = Path("/tmp")  # noqa: S108  where Triton's Python backend has its folders, whatever TMPDIR says # nosec B108
PYTHON_BACKEND_PARTS = ("libtriton_python.so", "triton_python_backend_utils.py")


def new_workspace(name: str) -> Path:
    """A folder for the server of this name."""
    return Path(tempfile.mkdtemp(prefix=f"{name}_"))


def remove_dead_workspaces() -> None:
    """Remove the folders, with their logs, of servers whose starters are dead."""
    for folder in Path(tempfile.gettempdir()).glob("attendant_*"):
        if is_orphan(folder.name):
            shutil.rmtree(folder, ignore_errors=True)  # what is another user's stays


def backends_directory(installation: Installation, workspace: Path) -> Path:
    """Say where the backends of a server with this workspace lie."""
    return installation.backends if installation.stub is None else workspace / "backends"


def lay_out_backends(installation: Installation, workspace: Path) -> None:
    """Put the stub beside its backend, where Triton looks for it; complete backends stay where they are."""
    if installation.stub is None:
        return
    python = backends_directory(installation, workspace) / "python"
    python.mkdir(parents=True)
    parts = [installation.backends / "python" / name for name in PYTHON_BACKEND_PARTS]
    for part in (*parts, installation.stub):
        (python / part.name).symlink_to(part)


def remove_dead_environments() -> None:
    """Remove the empty folders that servers made for Python environments and were killed before they removed.

    Nothing tells whose one is: while any server runs here, all of them stay.
    """
    if any(_is_server(entry) for entry in Path("/proc").glob("[0-9]*")):
        return
    for folder in ENVIRONMENTS.glob("python_env_??????"):
        with suppress(OSError):  # another user's, or in use: it is not empty
            folder.rmdir()


def _is_server(process: Path) -> bool:
    with suppress(OSError):  # it has ended
        return (process / "comm").read_text() == "tritonserver\n"
    return False


def log_path(workspace: Path) -> Path:
    """Say where the log of a server with this workspace lies."""
    return workspace / "tritonserver.log"
