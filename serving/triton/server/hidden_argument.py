"""Takes a secret out of the command line of a running program, which every user of the machine can read.

Whoever has the admin key can load a model, which is to run code, and tritonserver takes the key nowhere else.
"""

from pathlib import Path

_ARG_START, _ARG_END = 45, 46
"""Fields 48 and 49 of proc(5)'s stat, counted from the third: the second, a name, may hold spaces."""


def has_parsed(pid: int) -> bool:
    """Whether a tritonserver has read its arguments: it starts no thread before."""
    return len(list(Path(f"/proc/{pid}/task").iterdir())) > 1


def hide_argument(pid: int, secret: str) -> None:
    """Overwrite a secret in the arguments of a child.

    Args:
        pid: of a child that has copied its arguments.
        secret: ASCII.

    Raises:
        OSError: the child has ended, or this machine lets nobody write there.
    """
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    start, end = int(fields[_ARG_START]), int(fields[_ARG_END])
    with Path(f"/proc/{pid}/mem").open("r+b", buffering=0) as memory:
        memory.seek(start)
        arguments = memory.read(end - start)
        place = arguments.find(secret.encode())
        while place >= 0:
            memory.seek(start + place)
            memory.write(b"*" * len(secret))
            place = arguments.find(secret.encode(), place + 1)
