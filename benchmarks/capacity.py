"""Predicted beside measured: throughput and time to the first token at three loads, behind a real Triton.

The profile is measured first, of this machine, server and clients together (`attendant capacity measure`). Then Poisson
arrivals at about 30, 60 and 75 % of the rate at which the simulation saturates, sent, and simulated: the simulation
knows when they came and how long they were.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness.machine import OtherProcesses, wait_until_quiet
from benchmarks.harness.report import Benchmark, scratch_folder, table
from benchmarks.harness.sample_models import GPT2_SMALL, gpt2_small
from benchmarks.harness.servers import export_models, triton_over
from clients.load.analysis.intervals import intervals
from clients.load.arrivals import Poisson
from clients.load.record import LoadRun, RequestOutcome
from serving.capacity.demand import Demand
from serving.capacity.lengths import LognormalLengths
from serving.capacity.levels import Levels
from serving.capacity.profile import ReplicaProfile
from serving.capacity.profiling.inputs import load_model
from serving.capacity.profiling.measure import measure_profile
from serving.capacity.profiling.requests import send_load, write_inputs
from serving.capacity.replica import Arrival, Replica
from serving.engine.settings import EngineSettings

BENCHMARK = Benchmark("capacity", "Capacity", __doc__)
MODELS = ("stdlib-lm", GPT2_SMALL)
LOADS = (0.3, 0.6, 0.75)
TOLERANCE = 0.15
SLOWER = 1.05
"""By which steps take longer in a second prediction: it says how much the percentile hangs on the machine's speed."""
SETTINGS = EngineSettings(prefix_cache_bytes=0)
DEMAND = Demand(
    rate=1.0, prompt=LognormalLengths(median=40, p95=120, most=150), answer=LognormalLengths(median=30, p95=80, most=96)
)
INPUTS = 200
SIMULATED = 6_000
"""Requests of each load, at the least: its arrivals again and again."""
ROUNDS, FIRST_SEED = 3, 100
"""Servers that are started one after the other, and arrivals that no profile has seen."""
WARM_UP_S, PERIOD_S = 2.0, 1000.0


def main() -> int:
    """1 if a prediction is out of tolerance."""
    parser = BENCHMARK.parser(scratch=True, patience_s=120.0)
    parser.add_argument("--models", nargs="+", default=list(MODELS), help="shipped checkpoints, or gpt2-small")
    parser.add_argument("--seconds", type=float, default=60.0, help="of each load, all rounds together")
    parser.add_argument("--profile", type=Path, help="of one model, measured before")
    args = parser.parse_args()
    with scratch_folder(args) as scratch:
        found = {name: compare(name, scratch, args) for name in args.models}
    BENCHMARK.publish(args, report(found), {"models": found})
    return int(any(not level["within"] for one in found.values() for level in one["levels"]))


def compare(name: str, scratch: Path, args: argparse.Namespace) -> dict[str, Any]:
    """One model at every load, as JSON."""
    is_made = name == GPT2_SMALL
    folder = gpt2_small(scratch, "int8") if is_made else export_models([name], scratch / "artefacts")[name]
    wait_until_quiet(args.patience)
    profile = ReplicaProfile.read(args.profile) if args.profile else measure_profile(folder, SETTINGS)
    if args.scratch:
        profile.write(scratch / f"{name}.profile.json")
    limit = Levels(profile=profile, settings=SETTINGS, demand=DEMAND).saturation.requests
    inputs = scratch / f"{name}.jsonl"
    rng = np.random.default_rng(7)
    lengths = zip(DEMAND.prompt.draw(rng, INPUTS).tolist(), DEMAND.answer.draw(rng, INPUTS).tolist(), strict=True)
    write_inputs(load_model(folder, SETTINGS), lengths, inputs)
    runs: list[list[LoadRun]] = [[] for _ in LOADS]
    shares: list[list[float]] = [[] for _ in LOADS]
    for number in range(ROUNDS):
        with triton_over({name: folder}, scratch / f"served-{name}", SETTINGS) as server:
            for place, load in enumerate(LOADS):
                wait_until_quiet(args.patience)
                others = OtherProcesses(server.group)
                run = send_load(
                    server.endpoints.grpc,
                    name,
                    inputs,
                    Poisson(rate=load * limit),
                    warmup_s=WARM_UP_S,
                    duration_s=args.seconds / ROUNDS,
                    seed=FIRST_SEED + number,
                )
                runs[place].append(run)
                shares[place].append(others.share())
    levels = [
        {"load": load, "others": max(share), **predict(profile, of_load, args.seconds)}
        for load, of_load, share in zip(LOADS, runs, shares, strict=True)
    ]
    return {"profile": profile.to_json(), "saturation": limit, "levels": levels}


def predict(profile: ReplicaProfile, runs: Sequence[LoadRun], seconds: float) -> dict[str, Any]:
    """What the runs of a load measured beside what is predicted of the same arrivals."""
    records = [
        replace(
            one,
            scheduled_s=one.scheduled_s + number * PERIOD_S,
            sent_s=one.sent_s + number * PERIOD_S,
            responses_s=tuple(at_s + number * PERIOD_S for at_s in one.responses_s),
        )
        for number, run in enumerate(runs)
        for one in run.records
    ]
    failed = sum(one.outcome is not RequestOutcome.OK for one in records)
    times, window_s = -(-SIMULATED // len(records)), seconds / len(runs)
    arrivals = [
        Arrival(
            at_s=one.scheduled_s + number * len(runs) * PERIOD_S,
            prompt=one.input_tokens,
            answer=max(1, sum(one.tokens)),
        )
        for number in range(times)
        for one in records
    ]

    def simulate(profile: ReplicaProfile) -> Timeline:
        requests = Replica(profile, SETTINGS).run(arrivals).requests
        return Timeline([one.sent_s for one in requests], [one.responses_s for one in requests], window_s)

    served = replace(profile.served, factor=SLOWER * profile.served.factor)
    predicted, if_slower = simulate(profile), simulate(replace(profile, served=served))
    measured = Timeline([one.scheduled_s for one in records], [one.responses_s for one in records], window_s)
    predicted_s, measured_s = predicted.first_s(), measured.first_s()
    figures = {
        "requests/s": (predicted.count_ended() / times / seconds, measured.count_ended() / seconds),
        "TTFT p50": (float(np.percentile(predicted_s, 50)), float(np.percentile(measured_s, 50))),
        "TTFT p95": (float(np.percentile(predicted_s, 95)), float(np.percentile(measured_s, 95))),
    }
    errors = {name: one / other - 1 for name, (one, other) in figures.items()}
    return {
        "figures": {name: {"predicted": one, "measured": other} for name, (one, other) in figures.items()},
        "p95_interval": intervals(measured_s)["p95"],
        "p95_slower": float(np.percentile(if_slower.first_s(), 95)),
        "failed": failed,
        "lag_s": float(np.percentile([one.sent_s - one.scheduled_s for one in records], 95)),
        "within": not failed and max(abs(errors["requests/s"]), abs(errors["TTFT p95"])) <= TOLERANCE,
    }


@dataclass(frozen=True, slots=True)
class Timeline:
    """When requests were sent and answered, in periods that begin with a warm-up, and the seconds that then count."""

    sent_s: Sequence[float]
    responses_s: Sequence[Sequence[float]]
    seconds: float

    def first_s(self) -> NDArray[np.float64]:
        """Of each request behind the warm-up, the time to its first token."""
        pairs = zip(self.sent_s, self.responses_s, strict=True)
        return np.array([at_s[0] - sent_s for sent_s, at_s in pairs if at_s and self._counts(sent_s)])

    def count_ended(self) -> int:
        """How many were answered behind the warm-up."""
        return sum(bool(at_s) and self._counts(at_s[-1]) for at_s in self.responses_s)

    def _counts(self, at_s: float) -> bool:
        return 0 <= at_s % PERIOD_S - WARM_UP_S < self.seconds


def report(found: dict[str, Any]) -> Iterator[str]:
    heads = ["load", "requests/s", "measured", "TTFT p95 ms", "measured", "95 % interval"]
    heads += ["error", "if 5 % slower", "TTFT p50 ms", "measured", "others", "15 %"]
    for name, one in found.items():
        errors = ", ".join(f"{part} {error:.0%}" for part, error in one["profile"]["fit_error"].items())
        yield f"\n## {name}: saturates at {one['saturation']:.4g} requests/s (simulated)\n"
        yield f"Fit of the profile, largest errors: {errors}. Predicted of the same arrivals, then measured:\n"
        rows = []
        for level in one["levels"]:
            rate, first, middle = (level["figures"][figure] for figure in ("requests/s", "TTFT p95", "TTFT p50"))
            low_ms, high_ms = (1e3 * end for end in level["p95_interval"])
            failed = f", {level['failed']} failed" if level["failed"] else ""
            row = [f"{level['load']:.0%}", f"{rate['predicted']:.4g}", f"{rate['measured']:.4g}"]
            row += [f"{1e3 * value:.3g}" for value in (first["predicted"], first["measured"])]
            row += [f"{low_ms:.3g} to {high_ms:.3g}", f"{first['predicted'] / first['measured'] - 1:+.0%}"]
            row += [f"{1e3 * value:.3g}" for value in (level["p95_slower"], middle["predicted"], middle["measured"])]
            rows.append([*row, f"{level['others']:.0%}", ("within" if level["within"] else "beyond") + failed])
        yield table(heads, rows)


if __name__ == "__main__":
    raise SystemExit(main())
