"""Predicted beside measured: throughput and time to the first token at three loads, behind a real Triton.

    python benchmarks/capacity.py [--models M ...] [--seconds S] [--profile FILE] [--out DIR] [--scratch DIR]

The profile is measured first, of this machine, server and clients together (`attendant capacity measure`). Then Poisson
arrivals at about 30, 60 and 75 % of the rate at which the simulation saturates, sent, and simulated: the simulation
knows when they came and how long they were.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.generation.gpt2_small import NAME, gpt2_small  # noqa: E402
from benchmarks.generation.quiet import Foreign  # noqa: E402
from benchmarks.generation.served import exported, server_over  # noqa: E402
from benchmarks.generation.written import preamble, table, write_result  # noqa: E402
from benchmarks.peers.processes import wait_until_quiet  # noqa: E402
from benchmarks.peers.rounds import QUIET  # noqa: E402
from clients.load.analysis.intervals import intervals  # noqa: E402
from clients.load.arrivals import Poisson  # noqa: E402
from clients.load.record import LoadRun, Outcome, RequestRecord  # noqa: E402
from serving.capacity.demand import Demand  # noqa: E402
from serving.capacity.lengths import Lognormal  # noqa: E402
from serving.capacity.levels import Levels  # noqa: E402
from serving.capacity.profile import Profile  # noqa: E402
from serving.capacity.profiling.measure import measured  # noqa: E402
from serving.capacity.profiling.prompts import loaded  # noqa: E402
from serving.capacity.profiling.requests import asked, write_questions  # noqa: E402
from serving.capacity.replica import Arrival, Replica  # noqa: E402
from serving.engine.settings import EngineSettings  # noqa: E402

MODELS = ("stdlib-lm", NAME)
LOADS = (0.3, 0.6, 0.75)
TOLERANCE = 0.15
SLOWER = 1.05
"""By which steps take longer in a second prediction: it says how much the percentile hangs on the machine's speed."""
SETTINGS = EngineSettings(prefix_cache_bytes=0)
DEMAND = Demand(rate=1.0, prompt=Lognormal(median=40, p95=120, most=150), answer=Lognormal(median=30, p95=80, most=96))
QUESTIONS = 200
SIMULATED = 6_000
"""Requests of each load, at the least: its arrivals again and again."""
ROUNDS, FIRST_SEED = 3, 100
"""Servers that are started one after the other, and arrivals that no profile has seen."""
WARM_UP_S, PERIOD_S = 2.0, 1000.0


def main() -> int:
    """Measure, simulate, send, print and write; 1 if a prediction is out of tolerance."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("--models", nargs="+", default=list(MODELS), help="shipped checkpoints, or gpt2-small")
    parser.add_argument("--seconds", type=float, default=60.0, help="of each load, all rounds together")
    parser.add_argument("--patience", type=float, default=120.0, help="seconds to wait for a quiet machine, each load")
    parser.add_argument("--profile", type=Path, help="of one model, measured before")
    parser.add_argument("--out", type=Path, help="folder for <date>-capacity.md and .json; none if absent")
    parser.add_argument("--scratch", type=Path, help="folder for artefacts; kept if given")
    words = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        scratch = words.scratch or Path(temporary)
        found = {name: compared(name, scratch, words) for name in words.models}
    text = report(found)
    if words.out is not None:
        write_result(words.out, "capacity", text, found)
    sys.stdout.write(text + "\n")
    return int(any(not level["within"] for one in found.values() for level in one["levels"]))


def compared(name: str, scratch: Path, words: argparse.Namespace) -> dict[str, Any]:
    """One model at every load, as JSON."""
    folder = gpt2_small(scratch, "int8") if name == NAME else exported([name], scratch / "artefacts")[name]
    wait_until_quiet(words.patience, QUIET)
    profile = Profile.read(words.profile) if words.profile else measured(folder, SETTINGS)
    if words.scratch:
        profile.write(scratch / f"{name}.profile.json")
    limit = Levels(profile=profile, settings=SETTINGS, demand=DEMAND).limit.requests
    questions = scratch / f"{name}.jsonl"
    rng = np.random.default_rng(7)
    lengths = zip(DEMAND.prompt.draw(rng, QUESTIONS).tolist(), DEMAND.answer.draw(rng, QUESTIONS).tolist(), strict=True)
    write_questions(loaded(folder, SETTINGS), lengths, questions)
    runs: list[list[LoadRun]] = [[] for _ in LOADS]
    foreign: list[list[float]] = [[] for _ in LOADS]
    for number in range(ROUNDS):
        with server_over({name: folder}, scratch / f"served-{name}", SETTINGS) as server:
            for place, load in enumerate(LOADS):
                wait_until_quiet(words.patience, QUIET)
                others = Foreign(server.group)
                run = asked(
                    server.endpoints.grpc,
                    name,
                    questions,
                    Poisson(rate=load * limit),
                    warmup_s=WARM_UP_S,
                    duration_s=words.seconds / ROUNDS,
                    seed=FIRST_SEED + number,
                )
                runs[place].append(run)
                foreign[place].append(others.share())
    made = [
        {"load": load, "foreign": max(shares), **beside(profile, of_load, words.seconds)}
        for load, of_load, shares in zip(LOADS, runs, foreign, strict=True)
    ]
    return {"profile": profile.to_json(), "saturation": limit, "levels": made}


def beside(profile: Profile, runs: Sequence[LoadRun], seconds: float) -> dict[str, Any]:
    """What the runs of a load measured beside what is predicted of the same arrivals."""
    records = [_shifted(one, number) for number, run in enumerate(runs) for one in run.records]
    failed = sum(one.outcome is not Outcome.OK for one in records)
    times = -(-SIMULATED // len(records))
    arrivals = [
        Arrival(
            at_s=one.intended_s + number * len(runs) * PERIOD_S, prompt=one.input_tokens, answer=max(1, sum(one.tokens))
        )
        for number in range(times)
        for one in records
    ]
    tokens_per_s = sum(sum(one.tokens) for one in records) / (seconds + len(runs) * WARM_UP_S)
    made, slower = (
        _simulated(one, arrivals, tokens_per_s, seconds / len(runs)) for one in (profile, _slower(profile, SLOWER))
    )
    seen = Seen([one.intended_s for one in records], [one.responses_s for one in records], seconds / len(runs))
    wanted_s, found_s = made.first_s(), seen.first_s()
    figures = {
        "requests/s": (made.ended() / times / seconds, seen.ended() / seconds),
        "TTFT p50": (float(np.percentile(wanted_s, 50)), float(np.percentile(found_s, 50))),
        "TTFT p95": (float(np.percentile(wanted_s, 95)), float(np.percentile(found_s, 95))),
    }
    errors = {name: predicted / observed - 1 for name, (predicted, observed) in figures.items()}
    return {
        "figures": {name: {"predicted": one, "measured": other} for name, (one, other) in figures.items()},
        "p95_interval": intervals(found_s)["p95"],
        "p95_slower": float(np.percentile(slower.first_s(), 95)),
        "failed": failed,
        "lag_s": float(np.percentile([one.sent_s - one.intended_s for one in records], 95)),
        "within": not failed and max(abs(errors["requests/s"]), abs(errors["TTFT p95"])) <= TOLERANCE,
    }


@dataclass(frozen=True, slots=True)
class Seen:
    """When requests were sent and answered, in periods that begin with a warm-up, and the seconds that then count."""

    sent_s: Sequence[float]
    responses_s: Sequence[Sequence[float]]
    seconds: float

    def first_s(self) -> NDArray[np.float64]:
        """Of each request behind the warm-up, the time to its first token."""
        pairs = zip(self.sent_s, self.responses_s, strict=True)
        return np.array([said[0] - sent_s for sent_s, said in pairs if said and self._counts(sent_s)])

    def ended(self) -> int:
        """How many were answered behind the warm-up."""
        return sum(bool(said) and self._counts(said[-1]) for said in self.responses_s)

    def _counts(self, at_s: float) -> bool:
        return 0 <= at_s % PERIOD_S - WARM_UP_S < self.seconds


def _simulated(profile: Profile, arrivals: Sequence[Arrival], tokens_per_s: float, seconds: float) -> Seen:
    heard = Replica(profile, SETTINGS, tokens_per_s=tokens_per_s).run(arrivals).heard
    return Seen([one.intended_s for one in heard], [one.responses_s for one in heard], seconds)


def _slower(profile: Profile, factor: float) -> Profile:
    served = [
        replace(
            one,
            decode_factor=tuple(factor * value for value in one.decode_factor),
            prompt_factor=tuple(factor * value for value in one.prompt_factor),
        )
        for one in profile.served
    ]
    return replace(profile, served=tuple(served))


def _shifted(record: RequestRecord, number: int) -> RequestRecord:
    by_s = number * PERIOD_S
    responses_s = tuple(at_s + by_s for at_s in record.responses_s)
    return replace(record, intended_s=record.intended_s + by_s, sent_s=record.sent_s + by_s, responses_s=responses_s)


def report(found: dict[str, Any]) -> str:
    """Markdown."""
    heads = ["load", "requests/s", "measured", "TTFT p95 ms", "measured", "95 % interval"]
    heads += ["error", "if 5 % slower", "TTFT p50 ms", "measured", "others", "15 %"]
    lines = [*preamble("Capacity", "benchmarks/capacity.py", sys.argv[1:])]
    for name, one in found.items():
        errors = ", ".join(f"{part} {error:.0%}" for part, error in one["profile"]["fit_error"].items())
        lines += [f"\n## {name}: saturates at {one['saturation']:.4g} requests/s (simulated)\n"]
        lines += [f"Fit of the profile, largest errors: {errors}. Predicted of the same arrivals, then measured:\n"]
        lines += [table(heads, [_row(level) for level in one["levels"]])]
    return "\n".join(lines)


def _row(level: dict[str, Any]) -> list[str]:
    rate, first, middle = (level["figures"][name] for name in ("requests/s", "TTFT p95", "TTFT p50"))
    low_s, high_s = level["p95_interval"]
    verdict = "within" if level["within"] else "beyond"
    return [
        f"{level['load']:.0%}",
        f"{rate['predicted']:.4g}",
        f"{rate['measured']:.4g}",
        f"{1e3 * first['predicted']:.3g}",
        f"{1e3 * first['measured']:.3g}",
        f"{1e3 * low_s:.3g} to {1e3 * high_s:.3g}",
        f"{first['predicted'] / first['measured'] - 1:+.0%}",
        f"{1e3 * level['p95_slower']:.3g}",
        f"{1e3 * middle['predicted']:.3g}",
        f"{1e3 * middle['measured']:.3g}",
        f"{level['foreign']:.0%}",
        verdict + (f", {level['failed']} failed" if level["failed"] else ""),
    ]


if __name__ == "__main__":
    sys.exit(main())
