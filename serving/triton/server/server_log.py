"""The server's log: the lines that say what went wrong, and a copy for the terminal."""

import re
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

from clients.model_control import WAITING

ERROR_LINE = re.compile(r"(?:E\d{4} \S+ \d+ [^\]]+\] |error: )(?P<message>.*)")
UNTOLD = (
    "CudaDriverHelper has not been initialized",  # logged on every machine without a GPU
    "ERROR: Failed to create instance",  # repeated on the next line, with the model's name
)
SHOWN_LINES = 5
FOLLOW_S = 0.2


def problems_in(log: str) -> list[str]:
    """Give the last error messages of a log; its last lines when it has none."""
    messages = [match["message"] for match in map(ERROR_LINE.match, log.splitlines()) if match]
    errors = [
        " ".join(message.strip('"').replace(r"\n", " ").replace(r"\"", '"').split())
        for message in messages
        if not message.strip('"').startswith(UNTOLD) and WAITING not in message
    ]
    return (errors or log.splitlines())[-SHOWN_LINES:]


class LogFollower:
    """Copies a log to standard error, from a thread, until it is left."""

    def __init__(self, log: Path) -> None:
        self._log, self._over = log, threading.Event()
        self._thread = threading.Thread(target=self._follow, name="tritonserver log", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _follow(self) -> None:
        with self._log.open(errors="replace") as lines:
            while not self._over.wait(FOLLOW_S):
                sys.stderr.write(lines.read())
            sys.stderr.write(lines.read())
