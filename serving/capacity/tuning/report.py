"""A search as a table, in words that say how far it can be believed, and as the commands that follow from it."""

from collections.abc import Iterator
from math import isfinite
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from serving.capacity.tuning.search_space import DEFAULTS, Candidate
from serving.capacity.tuning.tune import ALIKE, APART, Trial, Tuning

_WIDTH = 110
_HEADS = (
    "slots",
    "prompt tokens a step",
    "threads",
    "instances",
    "simulated",
    "expected",
    "measured",
    "95 % or bounds",
    "",
)
_GOALS = {
    "throughput": "requests/s",
    "ttft": "p95 of the first token, ms",
    "latency": "p95 of the whole answer, ms",
}


def print_tuning(tuning: Tuning, artefact: str) -> None:
    """Print what was found, and what to do with it.

    Args:
        tuning: the search.
        artefact: the path of what was tuned.
    """
    console = Console(highlight=False, soft_wrap=False)
    console = console if console.is_terminal else Console(highlight=False, width=_WIDTH)
    table = Table(title=_GOALS[tuning.task.goal], title_justify="left", box=box.SIMPLE_HEAD)
    for head in _HEADS:
        table.add_column(head, justify="right" if head else "left", no_wrap=not head)
    best = tuning.best
    shown = [trial for trial in tuning.trials if trial.measured] or list(tuning.trials[:5])
    for trial in shown:
        table.add_row(*_row(tuning, trial), style="bold" if trial is best else "")
    console.print(table)
    for line in conclusion(tuning, artefact):
        console.print(line, markup=False, soft_wrap=True)


def conclusion(tuning: Tuning, artefact: str) -> Iterator[str]:
    """What the table means, line by line; the last ones are commands."""
    if not isfinite(tuning.default.simulated) or not tuning.default.simulated:
        yield "the defaults cannot keep the objectives, by the simulation; they were not measured"
    unmeasured = sum(trial.measured is None for trial in tuning.trials if trial.candidate != DEFAULTS)
    if unmeasured:
        yield f"{unmeasured} others were simulated alone"
    for trial in tuning.trials:
        if trial.measured and trial.measured.problem:
            yield f"INVALID, {trial.candidate.flags}: {trial.measured.problem}"
        elif trial.measured and trial.measured.remark:
            yield f"{trial.candidate.flags}: {trial.measured.remark}"
        error = tuning.error(trial)
        if error is not None and abs(error) > APART:
            yield (
                f"simulation and measurement disagree by {error:+.0%} about {trial.candidate.flags}: believe what was "
                "measured, and do not take the order of those that were simulated alone for theirs"
            )
    best, default = tuning.best, tuning.default
    if best is None or best.value is None:
        yield "nothing valid was measured: there are no settings to recommend"
        return
    if best is default:
        others = "" if any(trial.value is not None for trial in tuning.trials if trial is not default) else " valid"
        yield f"the defaults are as good as any other{others}: none was more than {ALIKE:.0%} better"
    elif default.value:
        yield f"{best.candidate.flags} is {_gain(tuning, best.value / default.value)} of what the defaults do"
    yield "to use it:"
    yield f"attendant repository {artefact} --out build/repository {best.candidate.flags}"
    yield "attendant serve --repository build/repository"


def tuning_json(tuning: Tuning) -> dict[str, Any]:
    """The search as plain JSON values; rates a second, times in seconds."""
    best = tuning.best
    return {
        "goal": tuning.task.goal,
        "interrupted": tuning.interrupted,
        "best": None if best is None else _plain(best.candidate),
        "trials": [
            {
                **_plain(trial.candidate),
                "simulated": trial.simulated if isfinite(trial.simulated) else None,  # it keeps no objective
                "measured": trial.measured and trial.measured.value,
                "interval": trial.measured and trial.measured.interval,
                "problem": trial.measured.problem if trial.measured else "",
                "remark": trial.measured.remark if trial.measured else "",
                "disagreement": tuning.error(trial),
            }
            for trial in tuning.trials
        ],
    }


def _plain(candidate: Candidate) -> dict[str, int]:
    names = ("max_num_seqs", "max_prefill_tokens", "threads", "instances")
    return {name: getattr(candidate, name) for name in names}


def _gain(tuning: Tuning, ratio: float) -> str:
    return f"{ratio:.2f} times" if tuning.task.goal == "throughput" else f"{ratio:.0%}"


def _row(tuning: Tuning, trial: Trial) -> Iterator[str]:
    yield from map(str, _plain(trial.candidate).values())
    factor = 1.0 if tuning.task.goal == "throughput" else 1e3
    yield f"{factor * trial.simulated:.4g}"
    expected = tuning.scaled(trial)
    yield "" if expected is None else f"{factor * expected:.4g}"
    measured = trial.measured
    yield "" if measured is None or measured.value is None else f"{factor * measured.value:.4g}"
    bounds = measured.interval if measured else None
    yield "" if bounds is None else f"{factor * bounds[0]:.4g} to {factor * bounds[1]:.4g}"
    words = [
        *(["the defaults"] if trial.candidate == DEFAULTS else []),
        *(["INVALID"] if measured and measured.problem else []),
        *(["best"] if trial is tuning.best else []),
    ]
    yield ", ".join(words)
