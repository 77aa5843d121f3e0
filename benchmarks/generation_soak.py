"""A mixed open-loop load on a real Triton: every answer beside the same request alone, memory, slots and counts.

    python benchmarks/generation_soak.py [--requests N] [--rate R] [--minutes M] [--out DIR] [--scratch DIR] [--quick]

Requests arrive at random (Poisson), at most 64 are in flight, and a quarter is given up: by taking it back, or by its
deadline. Every answer is compared token for token, with its text and the reason of its end, with the one that an engine
of this process gives when nothing else runs; what came of a request that was given up must be the beginning of that.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.generation.alone import Alone  # noqa: E402
from benchmarks.generation.asking import Heard  # noqa: E402
from benchmarks.generation.load import MOST_IN_FLIGHT, LoadResult, load  # noqa: E402
from benchmarks.generation.mix import Asked, mix, subjects_of  # noqa: E402
from benchmarks.generation.served import engine_counts, exported, server_over  # noqa: E402
from benchmarks.generation.soak_report import write_report  # noqa: E402
from benchmarks.generation.verdicts import HELD, compared, counted_alike  # noqa: E402
from serving.engine.settings import EngineSettings  # noqa: E402
from serving.triton.server.process import TritonServer  # noqa: E402

MODELS = ("stdlib-lm", "dates-transformer", "dates-gru", "digits-captioner")
SETTINGS = EngineSettings(prefix_cache_bytes=4 * 2**20)
"""A prefix cache that is full early in the run, so that memory which grows is seen as such."""
QUICK_REQUESTS, QUICK_RATE = 300, 100.0
IDLE_S = 5.0
MOST_GROWTH_MB = 10.0
"""Between the first and the last quartile of the samples; allocators settle for a while."""
SLOT_FREE_MS = 1000.0


def main() -> int:
    """Soak, compare, and write what was found; 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--rate", type=float, default=60.0, help="arrivals a second")
    parser.add_argument("--minutes", type=float, default=15.0, help="after which no more requests are sent")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="folder for <date>-generation-soak.json, .md and .png; none if absent")
    parser.add_argument("--scratch", type=Path, help="folder for artefacts; kept if given")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_REQUESTS} requests")
    asked = parser.parse_args()
    requests, rate = (QUICK_REQUESTS, QUICK_RATE) if asked.quick else (asked.requests, asked.rate)
    with tempfile.TemporaryDirectory() as temporary:
        scratch = asked.scratch or Path(temporary)
        artefacts = exported(list(MODELS), scratch / "artefacts")
        found = soak(artefacts, scratch, requests, rate, asked.minutes, asked.seed)
    sys.stdout.write(write_report(found, asked.out, sys.argv[1:]))
    return int(bool(found["wrong"]))


def soak(
    artefacts: Mapping[str, Path], scratch: Path, count: int, rate: float, minutes: float = 15.0, seed: int = 0
) -> dict[str, Any]:
    """Serve artefacts of shipped models, load them, and judge; what was found, as JSON.

    Args:
        artefacts: name → folder; the first model gets a share more than the others.
        scratch: a folder for the server's repository.
        count: of requests.
        rate: of arrivals, a second.
        minutes: after which no more requests are sent.
        seed: of the load.
    """
    subjects = {name: subjects_of(name) for name in artefacts}
    requests = mix(list(artefacts), count, rate, seed)
    with server_over(artefacts, scratch, SETTINGS) as server:
        before, _ = settled(server)  # with what the canary asked
        result = asyncio.run(load(server, requests, subjects, minutes))
        after, idle_s = settled(server)
    requests = requests[: len(result.heard)]
    heard: dict[str, list[Heard]] = {name: [] for name in artefacts}
    for one, said in zip(requests, result.heard, strict=True):
        heard[one.model].append(said)
    alone = {name: Alone(folder) for name, folder in artefacts.items()}
    began = time.monotonic()
    compared_counts, differences = compared(requests, result.heard, subjects, alone)
    found = {
        "load": load_figures(requests, result, rate),
        "compared": dict(compared_counts),
        "compared_s": time.monotonic() - began,
        "differences": [{name: getattr(one, name) for name in one.__dataclass_fields__} for one in differences],
        "counts": counted_alike(heard, before, after),
        "slots_free_after_s": idle_s,
        "memory": result.memory.growth(len(requests)),
        "memory_samples": {"seconds": result.memory.seconds, "megabytes": result.memory.megabytes},
    }
    return {**found, "wrong": mistakes(found)}


def settled(server: TritonServer) -> tuple[dict[str, dict[str, float]], float]:
    """The counts once no slot is taken, or after some seconds; and how long that took."""
    began = time.monotonic()
    while True:
        counts = engine_counts(server)
        waited_s = time.monotonic() - began
        busy = any(counts[model][name] for model in counts for name in HELD)
        if waited_s > IDLE_S or (not busy and waited_s > 1):  # counts are told four times a second
            return counts, waited_s
        time.sleep(0.05)


def load_figures(requests: list[Asked], result: LoadResult, rate: float) -> dict[str, Any]:
    """What the load was, and what the client saw of it."""
    first_ms = [1e3 * (one.arrivals_s[0] - one.sent_s) for one in result.heard if one.arrivals_s]
    freed_ms = [1e3 * one.freed_s for one in result.heard if one.freed_s is not None]
    outcomes = Counter(one.outcome for one in result.heard)
    return {
        "requests": len(requests),
        "rate": rate,
        "seconds": result.seconds,
        "most_in_flight": result.most_in_flight,
        "bound_in_flight": MOST_IN_FLIGHT,
        "held_back": result.held_back,
        "foreign": result.foreign,
        "responses": sum(len(one.arrivals_s) for one in result.heard),
        "tokens": sum(len(answer.tokens) for one in result.heard for answer in one.answers.values()),
        "models": dict(Counter(one.model for one in requests)),
        "kinds": dict(Counter(one.kind for one in requests)),
        "outcomes": dict(outcomes),
        "errors": dict(Counter(one.error for one in result.heard if one.outcome == "failed")),
        "first_response_ms": percentiles(first_ms),
        "slot_freed_ms": percentiles(freed_ms),
    }


def percentiles(values: list[float]) -> dict[str, float]:
    """Some quantiles, and the largest."""
    if not values:
        return {}
    named = {f"p{share}": float(np.percentile(values, share)) for share in (50, 95, 99)}
    return {**named, "largest": max(values)}


def mistakes(found: dict[str, Any]) -> list[str]:
    """What a soak must not find, in words."""
    unexplained = sum(one["explained_by"] is None for one in found["differences"])
    wrong = [f"{unexplained} answers differ beyond rounding"] if unexplained else []
    if failed := found["compared"].get("failed", 0):
        wrong.append(f"{failed} requests failed, or are answered only in company")
    if (slowest := found["load"]["slot_freed_ms"].get("largest", 0.0)) > SLOT_FREE_MS:
        wrong.append(f"a slot was held {slowest:.0f} ms after its request was taken back")
    for process, one in found["memory"].items():
        if (growth := one["last_quartile_mb"] - one["first_quartile_mb"]) > MOST_GROWTH_MB:
            wrong.append(f"the memory of {process} grew by {growth:.1f} MB")
    wrong += [f"{model}: {name}" for model, one in found["counts"].items() for name in one["wrong"]]
    return wrong


if __name__ == "__main__":
    sys.exit(main())
