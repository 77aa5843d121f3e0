"""A mixed open-loop load on a real Triton: every answer beside the same request alone, memory, slots and counts.

Requests arrive at random (Poisson), at most 64 are in flight, and more than a third is cancelled, or ends by its
deadline. Every answer is compared token for token, with its text and the reason of its end, with the one that an engine
of this process gives when nothing else runs; what came of a request that was cancelled must be the beginning of that.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness.report import Benchmark, scratch_folder
from benchmarks.harness.servers import export_models, triton_over
from benchmarks.soak.comparison import GAUGES, compare, compare_counts, read_counts
from benchmarks.soak.load import MAX_CONCURRENCY, SoakLoad, load
from benchmarks.soak.mix import MixedRequest, draw_requests, prompts_of
from benchmarks.soak.page import report
from benchmarks.soak.reference import ReferenceEngine
from benchmarks.soak.streams import StreamRecord
from serving.engine.settings import EngineSettings
from serving.triton.server.process import TritonServer

BENCHMARK = Benchmark("generation-soak", "A soak of the generation server", __doc__, "benchmarks.soak")
MODELS = ("stdlib-lm", "dates-transformer", "dates-gru", "digits-captioner")
SETTINGS = EngineSettings(prefix_cache_bytes=4 * 2**20)
"""A prefix cache that is full early in the run, so that memory which grows is seen as such."""
QUICK_REQUESTS, QUICK_RATE = 300, 100.0
IDLE_S = 5.0
MOST_GROWTH_MB = 10.0
"""Between the first and the last quartile of the samples; allocators settle for a while."""
SLOT_FREE_MS = 5000.0


def main() -> int:
    """1 if anything is wrong."""
    parser = BENCHMARK.parser(scratch=True)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--rate", type=float, default=60.0, help="arrivals a second")
    parser.add_argument("--minutes", type=float, default=15.0, help="after which no more requests are sent")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_REQUESTS} requests")
    args = parser.parse_args()
    requests, rate = (QUICK_REQUESTS, QUICK_RATE) if args.quick else (args.requests, args.rate)
    with scratch_folder(args) as scratch:
        artefacts = export_models(MODELS, scratch / "artefacts")
        found = soak(artefacts, scratch, requests, rate, args.minutes, args.seed)
    BENCHMARK.publish(args, report(found), found)
    return int(bool(found["wrong"]))


def soak(
    artefacts: Mapping[str, Path], scratch: Path, count: int, rate: float, minutes: float = 15.0, seed: int = 0
) -> dict[str, Any]:
    """Serve artefacts of shipped models, load them, and judge; what was found, as JSON."""
    prompts = {name: prompts_of(name) for name in artefacts}
    requests = draw_requests(list(artefacts), count, rate, seed)
    with triton_over(artefacts, scratch, SETTINGS) as server:
        before, _ = wait_until_idle(server)  # with what the canary sent
        result = asyncio.run(load(server, requests, prompts, minutes))
        after, idle_s = wait_until_idle(server)
    requests = requests[: len(result.records)]
    records: dict[str, list[StreamRecord]] = {name: [] for name in artefacts}
    for one, record in zip(requests, result.records, strict=True):
        records[one.model].append(record)
    references = {name: ReferenceEngine(folder) for name, folder in artefacts.items()}
    began = time.monotonic()
    compared, differences = compare(requests, result.records, prompts, references)
    found = {
        "load": load_figures(requests, result, rate),
        "compared": dict(compared),
        "compared_s": time.monotonic() - began,
        "differences": [asdict(one) for one in differences],
        "counts": compare_counts(records, before, after),
        "slots_free_after_s": idle_s,
        "memory": result.memory.growth(len(requests)),
        "memory_samples": {"seconds": result.memory.seconds, "megabytes": result.memory.megabytes},
    }
    return {**found, "wrong": mistakes(found)}


def wait_until_idle(server: TritonServer) -> tuple[dict[str, dict[str, float]], float]:
    """The counts once no slot is taken, or after some seconds; and how long that took."""
    began = time.monotonic()
    while True:
        counts = read_counts(server)
        waited_s = time.monotonic() - began
        busy = any(counts[model][name] for model in counts for name in GAUGES)
        if waited_s > IDLE_S or (not busy and waited_s > 1):  # counts are published four times a second
            return counts, waited_s
        time.sleep(0.05)


def load_figures(requests: list[MixedRequest], result: SoakLoad, rate: float) -> dict[str, Any]:
    """What the load was, and what the client saw of it."""

    def percentiles(values: list[float]) -> dict[str, float]:
        named = {f"p{share}": float(np.percentile(values, share)) for share in (50, 95, 99)} if values else {}
        return {**named, "largest": max(values)} if values else {}

    records = result.records
    return {
        "requests": len(requests),
        "rate": rate,
        "seconds": result.seconds,
        "most_in_flight": result.most_in_flight,
        "max_concurrency": MAX_CONCURRENCY,
        "held_back": result.held_back,
        "others": result.others,
        "responses": sum(len(one.arrivals_s) for one in records),
        "tokens": sum(len(answer.tokens) for one in records for answer in one.answers.values()),
        "models": dict(Counter(one.model for one in requests)),
        "kinds": dict(Counter(one.kind for one in requests)),
        "outcomes": dict(Counter(one.outcome for one in records)),
        "errors": dict(Counter(one.error for one in records if one.outcome == "failed")),
        "first_response_ms": percentiles([1e3 * (one.arrivals_s[0] - one.sent_s) for one in records if one.arrivals_s]),
        "slot_freed_ms": percentiles([1e3 * one.freed_s for one in records if one.freed_s is not None]),
    }


def mistakes(found: dict[str, Any]) -> list[str]:
    """What a soak must not find, in words."""
    unexplained = sum(one["explained_by"] is None for one in found["differences"])
    wrong = [f"{unexplained} answers differ beyond rounding"] if unexplained else []
    if failed := found["compared"].get("failed", 0):
        wrong.append(f"{failed} requests failed, or are answered only in company")
    if (slowest := found["load"]["slot_freed_ms"].get("largest", 0.0)) > SLOT_FREE_MS:
        wrong.append(f"a slot was held {slowest:.0f} ms after its request was cancelled")
    for process, one in found["memory"].items():
        if (growth := one["last_quartile_mb"] - one["first_quartile_mb"]) > MOST_GROWTH_MB:
            wrong.append(f"the memory of {process} grew by {growth:.1f} MB")
    wrong += [f"{model}: {name}" for model, one in found["counts"].items() for name in one["wrong"]]
    return wrong


if __name__ == "__main__":
    raise SystemExit(main())
