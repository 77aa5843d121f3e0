"""The server's own temporary folder: its log, and the backends folder that the wheel leaves unassembled."""

import os
import shlex
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from attendant.errors import OutputError
from attendant.temporary_folders import SHARED_PLACE
from serving.triton.server.environment import CHECKOUT
from serving.triton.server.installation import Installation
from serving.triton.server.shared_memory import is_orphan

PLACE = SHARED_PLACE  # where Triton's Python backend has its folders, whatever TMPDIR says
PACKAGES = ("attendant", "models", "export", "serving", "clients")
PYTHON_BACKEND_PARTS = ("libtriton_python.so", "triton_python_backend_utils.py")


def workspace_prefix(name: str) -> Path:
    """How the path of the folder of the server of this name begins."""
    place = Path(tempfile.gettempdir())
    return (place if is_plain(place) else PLACE) / f"{name}_"


def new_workspace(name: str) -> Path:
    """A folder for the server of this name.

    Raises:
        OutputError: the folder for temporary files cannot be written.
    """
    prefix = workspace_prefix(name)
    try:
        prefix.parent.mkdir(parents=True, exist_ok=True)  # somebody may have tidied it up while a server ran
        return Path(tempfile.mkdtemp(prefix=prefix.name, dir=prefix.parent))
    except OSError as error:
        remedy = "name another by TMPDIR"
        raise OutputError("a folder for temporary files", f"{prefix.parent}: {error.strerror}", remedy) from error


def is_plain(path: Path) -> bool:
    """Whether a shell reads a path as it stands: Triton's Python backend starts its stubs by an unquoted line."""
    return shlex.quote(str(path)) == str(path)


def plain_repository(repository: Path, workspace: Path) -> Path:
    """A repository's path as Triton can use it: where it is not plain, that of a link in the workspace."""
    return repository.absolute() if is_plain(repository.absolute()) else workspace / "repository"


def remove_dead_workspaces() -> None:
    """Remove this user's folders, with their logs, of servers whose starters are dead."""
    for place in {Path(tempfile.gettempdir()), PLACE}:
        for folder in place.glob("attendant_*"):
            if is_orphan(folder.name):
                with suppress(OSError, RecursionError):  # removed meanwhile; a model's code may have nested it so deep
                    if folder.lstat().st_uid == os.getuid():
                        shutil.rmtree(folder, ignore_errors=True)


def backends_directory(installation: Installation, workspace: Path) -> Path:
    """Say where the backends of a server with this workspace lie."""
    return installation.backends if installation.stub is None else workspace / "backends"


def lay_out(installation: Installation, repository: Path, workspace: Path) -> None:
    """Put into a workspace what of its links is missing: the stub beside its backend, the repository, our packages.

    Complete backends and plain paths stay where they are. A stub looks for modules in its working directory, which this
    folder is, and then where packages are installed, which may be of another version than we are.
    """
    links = {}
    if installation.stub is not None:
        parts = [installation.backends / "python" / name for name in PYTHON_BACKEND_PARTS]
        python = backends_directory(installation, workspace) / "python"
        links = {python / part.name: part for part in (*parts, installation.stub)}
    if (link := plain_repository(repository, workspace)) != repository.absolute():
        links[link] = repository.absolute()
    links |= {workspace / name: CHECKOUT / name for name in PACKAGES if (CHECKOUT / name).is_dir()}
    workspace.mkdir(mode=0o700, parents=True, exist_ok=True)
    for link, target in links.items():
        link.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            link.symlink_to(target)


def remove_dead_environments() -> None:
    """Remove the empty folders that servers made for Python environments and were killed before they removed.

    Nothing tells whose one is: while any server runs here, all of them stay.
    """
    if any(_is_server(entry) for entry in Path("/proc").glob("[0-9]*")):
        return
    for folder in PLACE.glob("python_env_??????"):
        with suppress(OSError):  # another user's, or in use: it is not empty
            folder.rmdir()


def _is_server(process: Path) -> bool:
    with suppress(OSError):  # it has ended
        return (process / "comm").read_text() == "tritonserver\n"
    return False


def log_path(workspace: Path) -> Path:
    """Say where the log of a server with this workspace lies."""
    return workspace / "tritonserver.log"
