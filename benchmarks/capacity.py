"""Predicted beside measured: throughput and time to the first token at three loads, behind a real Triton.

    python benchmarks/capacity.py [--models M ...] [--seconds S] [--profile FILE] [--out DIR] [--scratch DIR]

The profile is measured first, of this machine, server and clients together (`python -m serving profile`). Then Poisson
arrivals at about 30, 60 and 85 % of the rate at which the simulation saturates, each simulated and sent.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.generation.gpt2_small import NAME, gpt2_small  # noqa: E402
from benchmarks.generation.quiet import Foreign  # noqa: E402
from benchmarks.generation.served import exported, server_over  # noqa: E402
from benchmarks.generation.written import preamble, table, write_result  # noqa: E402
from benchmarks.peers.processes import wait_until_quiet  # noqa: E402
from benchmarks.peers.rounds import QUIET  # noqa: E402
from clients.load.arrivals import Poisson  # noqa: E402
from clients.load.record import LoadRun, Outcome  # noqa: E402
from serving.generation.settings import EngineSettings  # noqa: E402
from serving.profiling.asking import asked, write_questions  # noqa: E402
from serving.profiling.measure import measured  # noqa: E402
from serving.profiling.subjects import loaded  # noqa: E402
from serving.simulation.demand import Demand  # noqa: E402
from serving.simulation.lengths import Lognormal  # noqa: E402
from serving.simulation.levels import Levels  # noqa: E402
from serving.simulation.outcome import Outcome as Simulated  # noqa: E402
from serving.simulation.profile import Profile  # noqa: E402

MODELS = ("stdlib-lm", NAME)
LOADS = (0.3, 0.6, 0.85)
TOLERANCE = 0.15
SETTINGS = EngineSettings(prefix_bytes=0)
DEMAND = Demand(rate=1.0, prompt=Lognormal(median=40, p95=120, most=150), answer=Lognormal(median=30, p95=80, most=96))
QUESTIONS = 2000
WARM_UP_S = 5.0


def main() -> int:
    """Measure, simulate, send, print and write; 1 if a prediction is out of tolerance."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("--models", nargs="+", default=list(MODELS), help="shipped checkpoints, or gpt2-small")
    parser.add_argument("--seconds", type=float, default=60.0, help="of each load")
    parser.add_argument("--patience", type=float, default=120.0, help="seconds to wait for a quiet machine, each load")
    parser.add_argument("--requests", type=int, default=10_000, help="that are simulated at each load")
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
    levels = Levels(profile=profile, settings=SETTINGS, demand=DEMAND, requests=words.requests)
    questions = scratch / f"{name}.jsonl"
    rng = np.random.default_rng(7)
    lengths = zip(DEMAND.prompt.draw(rng, QUESTIONS).tolist(), DEMAND.answer.draw(rng, QUESTIONS).tolist(), strict=True)
    write_questions(loaded(folder, SETTINGS), lengths, questions)
    made = []
    with server_over({name: folder}, scratch / f"served-{name}", SETTINGS) as server:
        for load in LOADS:
            rate = load * levels.limit.requests
            predicted = replace(levels, demand=replace(DEMAND, rate=rate)).under(1)
            wait_until_quiet(words.patience, QUIET)
            foreign = Foreign(server.group)
            arrivals = Poisson(rate=rate)
            run = asked(
                server.endpoints.grpc,
                name,
                questions,
                arrivals,
                stream=True,
                warmup_s=WARM_UP_S,
                duration_s=words.seconds,
            )
            made.append({"load": load, "foreign": foreign.share(), **beside(predicted, run, words.seconds)})
    return {"profile": profile.to_json(), "saturation": levels.limit.requests, "levels": made}


def beside(predicted: Simulated, run: LoadRun, seconds: float) -> dict[str, Any]:
    """A prediction beside what a run measured."""
    counted = [one for one in run.records if WARM_UP_S <= one.intended_s < WARM_UP_S + seconds]
    ok = [one for one in counted if one.outcome is Outcome.OK]
    ended = [one for one in run.records if WARM_UP_S <= one.ended_s < WARM_UP_S + seconds]
    # What really came in these seconds, and not the rate that it was drawn with, is what can be answered.
    throughput = predicted.answered / predicted.offered * len(counted) / seconds
    first_s = np.percentile([one.responses_s[0] - one.intended_s for one in ok], [50, 95])
    figures = {
        "requests/s": (throughput, len(ended) / seconds),
        "TTFT p50": (predicted.statistic("time_to_first_token", "p50"), float(first_s[0])),
        "TTFT p95": (predicted.statistic("time_to_first_token", "p95"), float(first_s[1])),
    }
    errors = {name: made / seen - 1 for name, (made, seen) in figures.items()}
    return {
        "figures": {name: {"predicted": made, "measured": seen} for name, (made, seen) in figures.items()},
        "failed": len(counted) - len(ok),
        "lag_s": float(np.percentile([one.sent_s - one.intended_s for one in counted], 95)),
        "within": max(abs(errors["requests/s"]), abs(errors["TTFT p95"])) <= TOLERANCE,
    }


def report(found: dict[str, Any]) -> str:
    """Markdown."""
    heads = ["load", "requests/s", "measured", "TTFT p95 ms", "measured", "TTFT p50 ms", "measured", "others", "15 %"]
    lines = [*preamble("Capacity", "benchmarks/capacity.py", sys.argv[1:])]
    for name, one in found.items():
        errors = ", ".join(f"{part} {error:.0%}" for part, error in one["profile"]["fit_error"].items())
        lines += [f"\n## {name}: saturates at {one['saturation']:.4g} requests/s (simulated)\n"]
        lines += [f"Fit of the profile, largest errors: {errors}. Predicted, then measured:\n"]
        lines += [table(heads, [_row(level) for level in one["levels"]])]
    return "\n".join(lines)


def _row(level: dict[str, Any]) -> list[str]:
    cells = [f"{level['load']:.0%}"]
    for name, scale in (("requests/s", 1.0), ("TTFT p95", 1e3), ("TTFT p50", 1e3)):
        pair = level["figures"][name]
        cells += [f"{scale * pair['predicted']:.3g}", f"{scale * pair['measured']:.3g}"]
    verdict = "within" if level["within"] else "beyond"
    return [*cells, f"{level['foreign']:.0%}", verdict + (f", {level['failed']} failed" if level["failed"] else "")]


if __name__ == "__main__":
    sys.exit(main())
