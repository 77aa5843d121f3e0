"""Round-robin over the peers of a shape, a fresh prompt for every sample, until each measure has enough quiet samples.

Samples are kept in one JSON file after every peer's turn, so that a run that was stopped goes on where it was.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from attendant.progress import progress
from benchmarks.peers.processes import PeerError, PeerProcess, wait_until_quiet
from benchmarks.peers.products import make_product, make_source
from benchmarks.peers.registry import Peer
from benchmarks.peers.shapes import Shape

QUIET = 0.10
TRIES = 3
Request = Callable[[Shape, np.random.Generator], dict[str, Any]]
Record = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much is measured.

    Attributes:
        requests: measure → what to ask; the first is also asked with a fixed seed, to compare answers.
        rounds: quiet samples of each measure.
        threads: of every peer.
        deadline: ``time.monotonic()`` after which nothing more is begun.
        patience_s: longest wait for a quiet machine before one sample.
    """

    requests: dict[str, Request]
    rounds: int
    threads: int
    deadline: float
    patience_s: float


class Samples:
    """What was measured: shape → peer → its load time, memory, answer and samples, in a file."""

    def __init__(self, path: Path) -> None:
        """Take up what the file holds."""
        self.path = path
        self.values: dict[str, dict[str, Record]] = json.loads(path.read_text()) if path.is_file() else {}

    def of(self, shape: Shape, peer: Peer) -> Record:
        """The record of a peer; a new one where there is none."""
        return self.values.setdefault(shape.name, {}).setdefault(peer.name, {"samples": {}})

    def write(self) -> None:
        """Replace the file."""
        part = self.path.with_suffix(".part")
        part.write_text(json.dumps(self.values), encoding="utf-8")
        part.replace(self.path)


def measure(shape: Shape, peers: Sequence[Peer], plan: Plan, samples: Samples, place: Path) -> None:
    """Sample every peer that has not enough samples yet; one that fails says why in its record."""
    make_source(shape, place)
    with ExitStack() as stack:
        running: dict[str, PeerProcess] = {}
        for peer in peers:
            record = samples.of(shape, peer)
            if _is_enough(record, plan) or time.monotonic() > plan.deadline:
                continue
            record.pop("failed", None)
            try:
                folder = make_product(peer, place)
                process = PeerProcess(peer, folder, plan.threads, place / f"{peer.product}.worker.log")
                running[peer.name] = stack.enter_context(process)
                _warm_up(shape, running[peer.name], record, plan)
            except PeerError as error:
                _fail(record, peer, error, running)
        _take_rounds(shape, [peer for peer in peers if peer.name in running], running, plan, samples)


def _take_rounds(
    shape: Shape, peers: Sequence[Peer], running: dict[str, PeerProcess], plan: Plan, samples: Samples
) -> None:
    with progress(shape.name, plan.rounds * len(peers)) as advance:
        for number in range(plan.rounds):
            for peer in peers:
                record = samples.of(shape, peer)
                if peer.name in running and time.monotonic() < plan.deadline:
                    try:
                        _take_turn(shape, running[peer.name], record, plan, number)
                    except PeerError as error:
                        _fail(record, peer, error, running)
                    samples.write()
                advance(peer.name)


def _take_turn(shape: Shape, process: PeerProcess, record: Record, plan: Plan, number: int) -> None:
    for measure_name, request in plan.requests.items():
        kept = record["samples"].setdefault(measure_name, [])
        if len(quiet(kept)) > number:
            continue
        for _ in range(TRIES):
            wait_until_quiet(plan.patience_s, QUIET)
            sample = process.ask(request(shape, np.random.default_rng()))
            kept.append([sample.seconds, round(sample.foreign, 3)])
            record["peak_mb"] = sample.peak_mb
            if sample.foreign < QUIET or time.monotonic() > plan.deadline:
                break


def _warm_up(shape: Shape, process: PeerProcess, record: Record, plan: Plan) -> None:
    record["load_s"] = process.load_s
    for request in plan.requests.values():
        process.ask(request(shape, np.random.default_rng(1)))
    first = next(iter(plan.requests.values()))(shape, np.random.default_rng(0))
    if "new_tokens" in first:
        first["new_tokens"] = 16
    record["answer"] = process.ask(first).returned


def _fail(record: Record, peer: Peer, error: PeerError, running: dict[str, PeerProcess]) -> None:
    record["failed"] = str(error)
    running.pop(peer.name, None)
    sys.stderr.write(f"  {peer.name} left out: {error}\n")


def quiet(samples: Sequence[Sequence[float]]) -> list[float]:
    """Seconds of the samples during which others used less than a tenth of the processors."""
    return [seconds for seconds, foreign in samples if foreign < QUIET]


def _is_enough(record: Record, plan: Plan) -> bool:
    return all(len(quiet(record["samples"].get(name, []))) >= plan.rounds for name in plan.requests)
