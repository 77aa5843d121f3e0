"""The environment that the server and its stubs start with; the one place of this package that reads ours."""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

CHECKOUT = Path(__file__).parents[3]


def server_environment(libraries: Sequence[Path]) -> dict[str, str]:
    """Give our own environment with what the server needs on top.

    Args:
        libraries: directories that the loader must search first.
    """
    return environment_from(_read_environment(), libraries)


def environment_from(inherited: Mapping[str, str], libraries: Sequence[Path]) -> dict[str, str]:
    """Add to an environment what the server and its stubs need.

    The stub finds its interpreter's packages by the first python3 on PATH, and a model.py finds
    ``serving.triton.backends`` by PYTHONPATH. One OpenMP thread a model instance, unless the user says otherwise.
    """
    additions = {
        "LD_LIBRARY_PATH": _front([str(path) for path in libraries], inherited.get("LD_LIBRARY_PATH", "")),
        # The stub is started by a shell, which a caller's own PATH may lack.
        "PATH": _front([str(Path(sys.executable).parent), *filter(None, [inherited.get("PATH")])], os.defpath),
        "PYTHONPATH": _front([str(CHECKOUT)], inherited.get("PYTHONPATH", "")),
        "OMP_NUM_THREADS": inherited.get("OMP_NUM_THREADS", "1"),
    }
    return {**inherited, **{name: value for name, value in additions.items() if value}}


def loader_trace_environment() -> dict[str, str]:
    """Give our own environment, with the loader told to list libraries and to run nothing."""
    return {**_read_environment(), "LD_TRACE_LOADED_OBJECTS": "1"}


def _read_environment() -> Mapping[str, str]:
    return os.environ  # noqa: TID251  this file is the process launcher's


def _front(first: list[str], rest: str) -> str:
    return os.pathsep.join([*first, *filter(None, [rest])])
