"""Random faults and random traffic on the real server for as long as is asked, judged as `benchmarks.chaos` is.

Each round draws a scenario, a target, some traffics and a length; one in four has the bad clients of a second scenario
beside it. The same seed draws the same rounds.
"""

import random
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from benchmarks.chaos.__main__ import run_rounds
from benchmarks.chaos.report import page
from benchmarks.chaos.scenario import (
    MODELS,
    Expectation,
    Round,
    Scenario,
    Start,
    Traffic,
    expand,
    read_scenarios,
    read_traffics,
)
from benchmarks.harness.report import Benchmark, scratch_folder
from benchmarks.harness.servers import export_models

BENCHMARK = Benchmark("soak", "Random faults on the real server", __doc__, "benchmarks.chaos.soak")
HOURS = 1 / 6
STANDING, DOUBLE = 0.8, 0.25
"""Shares of rounds that leave the server standing, and of those with a second fault."""
LONGEST_S = 8.0
HOUR_S = 3600
Random = random.Random


def main() -> int:
    """1 if anything is wrong."""
    parser = BENCHMARK.parser(scratch=True)
    parser.add_argument("--hours", type=float, default=HOURS)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: the server under test is ended, too
    sys.stderr.write(f"a soak of {args.hours * 60:.0f} minutes with seed {args.seed}: making its models first\n")
    traffics = read_traffics()
    scenarios = expand(read_scenarios(), list(traffics))
    with scratch_folder(args) as scratch:
        artefacts = export_models(MODELS, scratch / "artefacts")
        rounds = draw_rounds(scenarios, traffics, Random(args.seed), args.hours * HOUR_S)
        found = run_rounds(rounds, traffics, artefacts, scratch, args.seed)
    BENCHMARK.publish(args, page(found), {"seed": args.seed, "hours": args.hours, **found})
    return int(found["passed"] < found["cells"] or bool(found["outside"]))


def draw_rounds(
    rounds: Sequence[Round], traffics: Mapping[str, Traffic], rng: Random, seconds: float
) -> Iterator[Round]:
    """Rounds drawn from those of the matrix, until the time is over."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        yield draw_round(rounds, traffics, rng)


def draw_round(rounds: Sequence[Round], traffics: Mapping[str, Traffic], rng: Random) -> Round:
    """One round: a fault of the matrix, perhaps with bad clients of another, some of the traffics, and a length."""
    standing = [one for one in rounds if not one.own_server and not one.ends_server]
    others = [one for one in rounds if one.own_server or one.ends_server]
    one = rng.choice(standing if rng.random() < STANDING else others)
    names = set(rng.sample(sorted(traffics), rng.randint(2, len(traffics))))
    if one.target and not any(one.target in traffics[name].models for name in names):
        names.add(rng.choice([name for name in sorted(traffics) if one.target in traffics[name].models]))
    scenario = msgspec.structs.replace(one.scenario, lasts_s=max(one.scenario.lasts_s, rng.uniform(0.5, LONGEST_S)))
    second = rng.choice([other for other in standing if other.scenario.faults[0].do == "clients"])
    name = one.name
    if one in standing and second.name != one.name and rng.random() < DOUBLE:
        name, scenario = f"{one.name}+{second.name}", combine(scenario, second.scenario, second.target)
    return Round(name=name, scenario=scenario, target=one.target, traffics=tuple(sorted(names)))


def combine(first: Scenario, second: Scenario, target: str = "") -> Scenario:
    """Both faults at once, the second on a target of its own: what either allows is allowed."""
    assert second.start == Start()
    one, other = first.expect, second.expect
    own = [msgspec.structs.replace(action, model=action.model or target) for action in second.faults]
    return msgspec.structs.replace(
        first,
        faults=(*first.faults, *own),
        lasts_s=max(first.lasts_s, second.lasts_s),
        limit_s=first.limit_s + second.limit_s,
        expect=Expectation(
            ended_s=_longest(one.ended_s, other.ended_s),
            back_s=_longest(one.back_s, other.back_s),
            silence_s=max(one.silence_s, other.silence_s),
            target_failed=_most(one.target_failed, other.target_failed),
            others_failed=None if target else _most(one.others_failed, other.others_failed),
            may_cut=one.may_cut or other.may_cut,
            bare_may_be_silent=one.bare_may_be_silent or other.bare_may_be_silent,
            same_processes=one.same_processes and other.same_processes,
        ),
    )


def _most(first: int | None, second: int | None) -> int | None:
    return None if first is None or second is None else max(first, second)


def _longest(first: float | None, second: float | None) -> float | None:
    return None if first is None or second is None else first + second


if __name__ == "__main__":
    raise SystemExit(main())
