"""What a run found: cells passed and failed by fault, recovery, and what is wrong, as JSON and as Markdown."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.chaos.checker import Violation, check, recoveries
from benchmarks.chaos.history import History, RoundHistory
from benchmarks.harness.report import table

SHOWN = 60
"""How many of the violations a page lists."""


def summarise(history: History, skipped: Mapping[str, str], seconds: float) -> dict[str, Any]:
    """All figures of a run, as JSON."""
    violations = check(history)
    rounds = {one.number: one for one in history.rounds.values()}
    faults = {}
    for label in dict.fromkeys(label_of(one) for one in rounds.values()):
        faults[label] = _figures([one for one in rounds.values() if label_of(one) == label], violations)
    requests = history.requests.values()
    return {
        "seconds": seconds,
        "rounds": len(rounds),
        "cells": sum(one["cells"] for one in faults.values()),
        "passed": sum(one["passed"] for one in faults.values()),
        "skipped": dict(skipped),
        "requests": len(requests),
        "responses": sum(len(one.responses) for one in requests),
        "tokens": sum(len(part.get("tokens") or ()) for one in requests for part in one.responses),
        "ends": dict(Counter(one.how or "none" for one in requests)),
        "rules": dict(Counter(one.rule for one in violations)),
        "outside": [one.found for one in violations if one.round not in rounds],
        "faults": faults,
        "violations": [
            {"fault": label_of(rounds[one.round]) if one.round in rounds else "", **_to_json(one)} for one in violations
        ],
    }


def label_of(one: RoundHistory) -> str:
    return f"{one.scenario}@{one.target}" if one.target else one.scenario


def failed_cells(history: History, violations: Sequence[Violation]) -> dict[str, list[str]]:
    """Cell → what is wrong with it; of a cell that is well, nothing."""
    cells: dict[str, list[str]] = {}
    for one in history.rounds.values():
        for traffic in one.traffics:
            own = [v for v in violations if v.round == one.number and v.traffic in ("", traffic)]
            cells[f"{label_of(one)}/{traffic}"] = [f"{v.rule}: {v.found}" for v in own]
    return cells


def _figures(rounds: Sequence[RoundHistory], violations: Sequence[Violation]) -> dict[str, Any]:
    failed = cells = 0
    for one in rounds:
        for traffic in one.traffics:
            cells += 1
            failed += any(v.round == one.number and v.traffic in ("", traffic) for v in violations)
    numbers = {one.number for one in rounds}
    own = Counter(v.rule for v in violations if v.round in numbers)
    times = [seconds for one in rounds if _comes_back(one) for seconds in recoveries(one).values()]
    finite = [seconds for seconds in times if seconds != float("inf")]
    others = sum(
        request.how != "ok" for one in rounds for request in one.requests if one.target and request.model != one.target
    )
    return {
        "cells": cells,
        "passed": cells - failed,
        "recovery_s": {f"p{share}": float(np.percentile(finite, share)) for share in (50, 95, 100)} if finite else {},
        "not_back": len(times) - len(finite),
        "lost": own["lost"],
        "wrong": own["wrong token"] + own["duplicate token"] + own["missing token"] + own["token after end"],
        "others_failed": others,
        "rules": dict(own),
    }


def _comes_back(one: RoundHistory) -> bool:
    return one.injected is not None and one.expect.get("exit_status") is None


def _to_json(one: Violation) -> dict[str, Any]:
    return {name: getattr(one, name) for name in ("rule", "found", "round", "traffic", "request")}


def page(found: Mapping[str, Any]) -> Iterator[str]:
    """The same as Markdown."""
    passed, cells = found["passed"], found["cells"]
    yield (
        f"**{passed} of {cells} cells hold what their scenario expects.** {found['rounds']} rounds in "
        f"{found['seconds']:.0f} s; {found['requests']} requests, {found['responses']} responses.\n"
    )
    yield "How requests ended: " + ", ".join(f"{count} {how}" for how, count in sorted(found["ends"].items())) + ".\n"
    heads = ["fault", "cells", "held", "back p50, s", "p95, s", "max, s", "not back", "lost", "wrong", "others failed"]
    rows = []
    for label, one in found["faults"].items():
        times = [f"{one['recovery_s'][name]:.1f}" if one["recovery_s"] else "" for name in ("p50", "p95", "p100")]
        counts = [one[name] for name in ("not_back", "lost", "wrong", "others_failed")]
        rows.append([label, one["cells"], one["passed"], *times, *counts])
    yield table(heads, rows) + "\n"
    for label, reason in found["skipped"].items():
        yield f"- not tried: {label}: {reason}"
    if found["violations"]:
        yield "\n## What was not kept\n"
        tally = Counter((v["fault"], v["traffic"], v["rule"]) for v in found["violations"])
        first = {(v["fault"], v["traffic"], v["rule"]): v["found"] for v in reversed(found["violations"])}
        heads = ["fault", "traffic", "rule", "times", "the first"]
        rows = [[*key, count, first[key][:160].replace("|", "/")] for key, count in tally.most_common(SHOWN)]
        yield table(heads, rows)
