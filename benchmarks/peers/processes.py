"""A peer's process, which gets a request a line and answers by one, and how busy others kept the machine meanwhile."""

import json
import shutil
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from typing import Any, Self

from benchmarks.harness.machine import ROOT, processor_seconds, quiet_environment
from benchmarks.peers.registry import Peer
from benchmarks.peers.shapes import Library, Shape

LONGEST_S = 300.0


class PeerError(Exception):
    """A peer ended, or could not be made; the message is the end of what it wrote."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerSample:
    """One timed request.

    Attributes:
        seconds: of the call.
        others: share of the processors that others used meanwhile.
        returned: by the peer; of one that generates, the tokens.
        steps_s: of one that generates, when each step had its tokens, from the call's start.
        peak_mb: the most memory that the process has held so far.
    """

    seconds: float
    others: float
    returned: list[Any]
    steps_s: list[float]
    peak_mb: float


def interpreter(environment: str) -> str:
    """The Python of an environment of peers; this one for ``ours``."""
    return sys.executable if environment == "ours" else str(ROOT / "build" / "peers" / environment / "bin" / "python")


class PeerProcess:
    """A running peer; a context."""

    def __init__(self, peer: Peer, folder: Path, threads: int, log: Path) -> None:
        """Start it and wait until it has loaded."""
        options = json.dumps({"folder": str(folder), "threads": threads, **peer.options})
        path = Path(__file__).parent / peer.file
        command = [interpreter(peer.environment), "-m", "benchmarks.peers.worker", str(path), options]
        self._log = log
        with log.open("w") as errors:
            pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": errors}
            self._process = subprocess.Popen(command, cwd=ROOT, text=True, env=quiet_environment(), **pipes)
        try:
            self.load_s = float(self._read_answer()["load_s"])
        except PeerError:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._process.kill()
        with suppress(BrokenPipeError), self._process:
            pass  # waits, and closes its pipes

    def send(self, request: dict[str, Any]) -> PeerSample:
        """Time one request; a peer that takes more than five minutes is ended."""
        assert self._process.stdin is not None
        before = processor_seconds()
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        except OSError as error:
            raise PeerError(last_line(self._log)) from error
        answer = self._read_answer()
        busy, passed = (after - was for after, was in zip(processor_seconds(), before, strict=True))
        others = max(0.0, busy - answer["processor_s"]) / max(passed, 1e-9)
        returned, steps_s = answer["returned"], list[float]()
        if isinstance(returned, dict):
            returned, steps_s = returned["tokens"], returned["steps_s"]
            if len(steps_s) != request["new_tokens"]:
                raise PeerError(f"it said when {len(steps_s)} steps ended, and was to take {request['new_tokens']}")
        return PeerSample(
            seconds=answer["seconds"], others=others, returned=returned, steps_s=steps_s, peak_mb=answer["peak_mb"]
        )

    def _read_answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        timer = Timer(LONGEST_S, self._process.kill)
        timer.start()
        try:
            line = self._process.stdout.readline()
        finally:
            timer.cancel()
        if not line:
            raise PeerError(last_line(self._log))
        value: dict[str, Any] = json.loads(line)
        return value


def last_line(log: Path) -> str:
    """The last line of a log that says something."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1][:300] if lines else "no message"


def build_source(shape: Shape, place: Path) -> None:
    """Write the library's folder with random weights, and our checkpoint made from it, where they are not yet."""
    make_model = ("{library}", "-m", "benchmarks.peers.make_model", shape.name, "{out}")
    _run_once(place / "source", make_model, place, shape.library)
    import_model = ("{python}", "-m", "attendant", "models", "import", "{source}", "--out", "{out}")
    _run_once(place / "ours", import_model, place, shape.library)


def build_product(peer: Peer, place: Path, library: Library = "transformers") -> Path:
    """The folder that a peer loads, made where it is not yet."""
    if peer.make:
        _run_once(place / peer.product, peer.make, place, library)
    return place / peer.product


def _run_once(out: Path, command: tuple[str, ...], place: Path, library: Library) -> None:
    if out.is_dir():
        return
    words = {
        "library": interpreter("timm" if library == "timm" else "modern"),
        "out": str(out.with_suffix(".part")),
        "source": str(place / "source"),
        "ours": str(place / "ours"),
        "python": sys.executable,
        "modern": interpreter("modern"),
        "optimum": interpreter("optimum"),
        "llamacpp": interpreter("llamacpp"),
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(words["out"], ignore_errors=True)
    log = out.with_suffix(".log")
    sys.stderr.write(f"  making {out.name} …\n")
    with log.open("w") as file:
        filled = [word.format(**words) for word in command]
        done = subprocess.run(filled, cwd=ROOT, stdout=file, stderr=file, env=quiet_environment(), check=False)
    if done.returncode:
        raise PeerError(f"making {out.name}: {last_line(log)}; see {log.relative_to(ROOT)}")
    Path(words["out"]).rename(out)
