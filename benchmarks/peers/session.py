"""What both benchmarks share: the command line, the run over shapes, and the page."""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.peers.hardware import hardware, versions
from benchmarks.peers.processes import ROOT
from benchmarks.peers.registry import PEERS, Peer, ours
from benchmarks.peers.results import Cells, write_results
from benchmarks.peers.rounds import Plan, Request, Samples, measure
from benchmarks.peers.shapes import SHAPES, Kind, Shape

PLACE = ROOT / "build" / "benchmarks"
NOTES = (
    "One process a peer, round-robin, fresh random inputs for every sample, random weights that are the same for all.",
    "Median (first … third quartile). Quiet samples: the fewest of any measure … all that were taken of the one with",
    "most; a sample is quiet where other processes used less than 10 % of the processors. Random weights say nothing",
    "about accuracy: where tokens differ, the logits are nearly flat, and the precision is low. A question mark:",
    "fewer than two samples were quiet, and the figure is not to be relied on.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """One of the two.

    Attributes:
        name: of the page and of the file of samples.
        title: of the page.
        kinds: of the shapes.
        requests: see :class:`benchmarks.peers.rounds.Plan`.
        heads: of the columns that ``cells`` fills.
        cells: a peer's record → text.
        runtimes: that execute our artefacts where none is named.
    """

    name: str
    title: str
    kinds: tuple[Kind, ...]
    requests: dict[str, Request]
    heads: list[str]
    cells: Cells
    runtimes: tuple[str, ...]


def main(benchmark: Benchmark, description: str) -> None:
    """Make what is missing, measure, and write the page."""
    asked = _parser(benchmark, description).parse_args()
    samples = _samples(benchmark, asked.quick, asked.fresh)
    plan = Plan(
        requests=benchmark.requests,
        rounds=2 if asked.quick else asked.rounds,
        threads=asked.threads,
        deadline=time.monotonic() + 60 * asked.minutes,
        patience_s=0.0 if asked.quick else asked.patience,
    )
    used: set[str] = set()
    for shape in (SHAPES[name] for name in asked.shapes):
        peers = _peers(shape, asked.ours, asked.runtimes, asked.peers)
        used |= {peer.environment for peer in peers}
        measure(shape, peers, plan, samples, PLACE / shape.name)
    facts = {
        "command": " ".join(["python", *sys.argv]),
        "hardware": hardware() | {"threads": str(asked.threads)},
        "versions": versions(used),
        "notes": list(NOTES),
    }
    values = {name: samples.values[name] for name in asked.shapes}
    folder = PLACE if asked.quick else ROOT / "benchmarks" / "results"
    page = folder / f"{time.strftime('%Y-%m-%d')}-{benchmark.name}.md"
    write_results(page, benchmark.title, values, facts, benchmark.heads, benchmark.cells)
    sys.stdout.write(page.read_text(encoding="utf-8"))


def _parser(benchmark: Benchmark, description: str) -> argparse.ArgumentParser:
    shapes = [name for name, shape in SHAPES.items() if shape.kind in benchmark.kinds]
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--shapes", nargs="+", choices=shapes, default=shapes)
    parser.add_argument("--peers", nargs="+", default=[""], help="words; peers whose names hold one of them")
    parser.add_argument("--ours", nargs="+", default=[""], help='artefacts: words for export onnx, "--precision int8"')
    parser.add_argument("--runtimes", nargs="+", default=list(benchmark.runtimes), help="that execute them")
    parser.add_argument("--rounds", type=int, default=7, help="quiet samples of each measure")
    parser.add_argument("--minutes", type=float, default=60.0, help="after which nothing more is begun")
    parser.add_argument("--patience", type=float, default=20.0, help="seconds to wait for a quiet machine, a sample")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--quick", action="store_true", help="two samples each, on a busy machine too; the page stays in build/"
    )
    parser.add_argument("--fresh", action="store_true", help="forget the samples of runs before")
    return parser


def _peers(shape: Shape, artefacts: list[str], runtimes: list[str], words: list[str]) -> list[Peer]:
    mine = [ours(shape.kind, tuple(artefact.split()), runtime) for artefact in artefacts for runtime in runtimes]
    fitting = [peer for peer in PEERS if peer.kind == shape.kind and shape.name not in peer.not_for]
    return [peer for peer in [*fitting, *mine] if any(word in peer.name for word in words)]


def _samples(benchmark: Benchmark, quick: bool, fresh: bool) -> Samples:
    PLACE.mkdir(parents=True, exist_ok=True)
    path: Path = PLACE / f"{benchmark.name}{'-quick' if quick else ''}-samples.json"
    if fresh:
        path.unlink(missing_ok=True)
    return Samples(path)
