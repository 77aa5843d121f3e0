"""A peer's process, asked by one line and answering by one line, and how busy others kept the machine meanwhile."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from typing import Any

from benchmarks.peers.registry import Peer

ROOT = Path(__file__).parents[2]
LONGEST_S = 300.0


class PeerError(Exception):
    """A peer ended, or could not be made; the message is the end of what it wrote."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One timed request.

    Attributes:
        seconds: that the call took.
        foreign: share of the machine's processors that other processes used meanwhile.
        returned: what the call returned.
        peak_mb: the most memory that the process has held so far.
    """

    seconds: float
    foreign: float
    returned: list[Any]
    peak_mb: float


def interpreter(environment: str) -> str:
    """The Python of an environment of peers; this one for ``ours``."""
    return sys.executable if environment == "ours" else str(ROOT / "build" / "peers" / environment / "bin" / "python")


class PeerProcess:
    """A running peer; a context."""

    def __init__(self, peer: Peer, folder: Path, threads: int, log: Path) -> None:
        """Start it and wait until it has loaded.

        Raises:
            PeerError: it ended first.
        """
        options = json.dumps({"folder": str(folder), "threads": threads, **peer.options})
        here = Path(__file__).parent
        command = [interpreter(peer.environment), str(here / "worker.py"), str(here / peer.file), options]
        self._log = log
        with log.open("w") as errors:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=quiet_environment(),
            )
        try:
            self.load_s = float(self._answer()["load_s"])
        except PeerError:
            self.close()
            raise

    def __enter__(self) -> PeerProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End it."""
        self._process.kill()
        with suppress(BrokenPipeError), self._process:
            pass  # waits, and closes its pipes

    def ask(self, request: dict[str, Any]) -> Sample:
        """Time one request.

        Raises:
            PeerError: the peer ended, or took more than five minutes.
        """
        assert self._process.stdin is not None
        before = processor_seconds()
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        except OSError as error:
            raise PeerError(self._last_words()) from error
        answer = self._answer()
        busy, passed = (after - was for after, was in zip(processor_seconds(), before, strict=True))
        foreign = max(0.0, busy - answer["processor_s"]) / max(passed, 1e-9)
        return Sample(
            seconds=answer["seconds"], foreign=foreign, returned=answer["returned"], peak_mb=answer["peak_mb"]
        )

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        timer = Timer(LONGEST_S, self._process.kill)
        timer.start()
        try:
            line = self._process.stdout.readline()
        finally:
            timer.cancel()
        if not line:
            raise PeerError(self._last_words())
        value: dict[str, Any] = json.loads(line)
        return value

    def _last_words(self) -> str:
        return last_line(self._log)


def last_line(log: Path) -> str:
    """The last line of a log that says something."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1][:300] if lines else "no message"


def quiet_environment() -> dict[str, str]:
    """This process's environment, without a model hub and without threads that spin while they wait."""
    dropped = {"OMP_NUM_THREADS"}
    kept = {name: value for name, value in os.environ.items() if name not in dropped}  # noqa: TID251 - a launcher
    return {**kept, "HF_HUB_OFFLINE": "1", "OMP_WAIT_POLICY": "PASSIVE", "TOKENIZERS_PARALLELISM": "false"}


def processor_seconds() -> tuple[float, float]:
    """Seconds that all processors together have been busy, and that they have had, since the machine started."""
    ticks = [int(word) for word in Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()[1:9]]
    idle, second = ticks[3] + ticks[4], os.sysconf("SC_CLK_TCK")
    return (sum(ticks) - idle) / second, sum(ticks) / second


def wait_until_quiet(patience_s: float, share: float) -> None:
    """Wait until others use less than a share of the processors, but no longer than the patience."""
    until = time.monotonic() + patience_s
    while time.monotonic() < until:
        busy, passed = processor_seconds()
        time.sleep(0.25)
        later, total = processor_seconds()
        if later - busy < share * max(total - passed, 1e-9):
            return
        time.sleep(0.5)
