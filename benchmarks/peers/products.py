"""What peers load: the shared weights, our checkpoint of them, and each peer's own format; each is made once."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.peers.processes import ROOT, PeerError, interpreter, last_line, quiet_environment
from benchmarks.peers.registry import Peer
from benchmarks.peers.shapes import Shape


def make_source(shape: Shape, place: Path) -> None:
    """Write transformers' folder with random weights, and our checkpoint made from it, where they are not yet.

    Raises:
        PeerError: a command failed.
    """
    make_model = (interpreter("modern"), "benchmarks/peers/make_model.py", shape.name, "{out}")
    _make(place / "source", make_model, place)
    _make(place / "ours", (sys.executable, "-m", "attendant", "models", "import", "{source}", "--out", "{out}"), place)


def make_product(peer: Peer, place: Path) -> Path:
    """The folder that a peer loads, made where it is not yet.

    Raises:
        PeerError: its command failed.
    """
    if peer.make:
        _make(place / peer.product, peer.make, place)
    return place / peer.product


def _make(out: Path, command: tuple[str, ...], place: Path) -> None:
    if out.is_dir():
        return
    words = {
        "out": str(out.with_suffix(".part")),
        "source": str(place / "source"),
        "ours": str(place / "ours"),
        "python": sys.executable,
        "modern": interpreter("modern"),
        "optimum": interpreter("optimum"),
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
