"""Round-robin over the peers of a shape, a fresh prompt for every sample, until each request has enough quiet samples.

Samples are kept in one JSON file after every peer's turn, so that a run that was stopped goes on where it was.
"""

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
from benchmarks.harness.machine import QUIET, wait_until_quiet
from benchmarks.harness.rounds import quiet_values
from benchmarks.peers.processes import PeerError, PeerProcess, build_product, build_source
from benchmarks.peers.registry import Peer
from benchmarks.peers.shapes import Shape

TRIES = 3
Request = Callable[[Shape, np.random.Generator], dict[str, Any]]
Record = dict[str, Any]
Rows = list[tuple[float, float]]
"""A value, and the share of the processors that others used meanwhile, of each sample."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much is measured.

    Attributes:
        requests: name → what is sent; the first is also sent with a fixed seed, to compare answers.
        rounds: quiet samples of each request.
        deadline: ``time.monotonic()`` after which nothing more is begun.
    """

    requests: dict[str, Request]
    rounds: int
    threads: int
    deadline: float
    patience_s: float


class Samples:
    """What was measured: shape → peer → its load time, memory, answer and samples, in a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.values: dict[str, dict[str, Record]] = json.loads(path.read_text()) if path.is_file() else {}

    def of(self, shape: Shape, peer: Peer) -> Record:
        return self.values.setdefault(shape.title, {}).setdefault(peer.name, {"samples": {}})

    def write(self) -> None:
        part = self.path.with_suffix(".part")
        part.write_text(json.dumps(self.values), encoding="utf-8")
        part.replace(self.path)


def measure(shape: Shape, peers: Sequence[Peer], plan: Plan, samples: Samples, place: Path) -> None:
    """Sample every peer that has not enough samples yet; one that fails says why in its record."""
    build_source(shape, place)
    with ExitStack() as stack:
        running: dict[str, PeerProcess] = {}

        def leave_out(peer: Peer, error: PeerError) -> None:
            samples.of(shape, peer)["failed"] = str(error)
            running.pop(peer.name, None)
            sys.stderr.write(f"  {peer.name} left out: {error}\n")

        for peer in peers:
            record = samples.of(shape, peer)
            taken = (quiet_values(record["samples"].get(name, [])) for name in plan.requests)
            if all(len(values) >= plan.rounds for values in taken) or time.monotonic() > plan.deadline:
                continue
            record.pop("failed", None)
            try:
                folder = build_product(peer, place, shape.library)
                process = PeerProcess(peer, folder, plan.threads, place / f"{peer.product}.worker.log")
                running[peer.name] = stack.enter_context(process)
                warm_up(shape, running[peer.name], record, plan)
            except PeerError as error:
                leave_out(peer, error)
        started = [peer for peer in peers if peer.name in running]
        with progress(shape.title, plan.rounds * len(started)) as advance:
            for number in range(plan.rounds):
                for peer in started:
                    if peer.name in running and time.monotonic() < plan.deadline:
                        try:
                            take_turn(shape, running[peer.name], samples.of(shape, peer), plan, number)
                        except PeerError as error:
                            leave_out(peer, error)
                        samples.write()
                    advance(peer.name)


def warm_up(shape: Shape, process: PeerProcess, record: Record, plan: Plan) -> None:
    """Run every request once, and keep the answer to one that is the same for all peers."""
    record["load_s"] = process.load_s
    for request in plan.requests.values():
        process.send(request(shape, np.random.default_rng(1)))
    first = next(iter(plan.requests.values()))(shape, np.random.default_rng(0))
    if "new_tokens" in first:
        first["new_tokens"] = 16
    record["answer"] = process.send(first).returned


def take_turn(shape: Shape, process: PeerProcess, record: Record, plan: Plan, number: int) -> None:
    """Samples of each request that has no more quiet ones than this round's number."""
    for name, request in plan.requests.items():
        kept = record["samples"].setdefault(name, [])
        if len(quiet_values(kept)) > number:
            continue
        for _ in range(TRIES):
            wait_until_quiet(plan.patience_s)
            sample = process.send(request(shape, np.random.default_rng()))
            kept.append([sample.seconds, round(sample.others, 3), [round(one, 6) for one in sample.steps_s]])
            record["peak_mb"] = sample.peak_mb
            if sample.others < QUIET or time.monotonic() > plan.deadline:
                break
