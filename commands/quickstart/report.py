"""The one table that the quickstart shows."""

import platform

import numpy as np
from rich.console import Console
from rich.table import Table

from commands.quickstart.answers import Answers
from commands.quickstart.outcome import Outcome


def print_table(console: Console, outcomes: list[Outcome]) -> None:
    """Print accuracy and latency, served beside in process."""
    table = Table(title=f"questions, one after the other ({platform.machine()}, CPU)")
    for column in ("model", "way", "right", "p50 ms", "p95 ms", "p99 ms", "first token p50 ms", "tokens/s"):
        table.add_column(column, justify="left" if column in ("model", "way") else "right")
    for outcome in outcomes:
        ways = {"PyTorch": outcome.pytorch, "in process": outcome.process, "served, gRPC": outcome.served}
        for way, answers in ways.items():
            percentiles = [_percentile(answers.latencies_ms, q) for q in (50, 95, 99)]
            speed = answers.tokens_per_second()
            first = _percentile(answers.first_token_ms, 50)
            table.add_row(
                outcome.name if way == "PyTorch" else "",
                way,
                *[_accuracy(outcome, answers), *percentiles, first, f"{speed:.0f}" if speed else ""],
            )
        table.add_section()
    console.print(table)


def _accuracy(outcome: Outcome, answers: Answers) -> str:
    if outcome.truths is None:
        same = sum(one == other for one, other in zip(answers.answers, outcome.pytorch.answers, strict=True))
        return f"{same}/{len(answers.answers)} as PyTorch"
    right = round(answers.accuracy(outcome.truths) * len(outcome.truths))
    return f"{right}/{len(outcome.truths)} = {right / len(outcome.truths):.2%}"


def _percentile(values: list[float], q: float) -> str:
    return f"{np.percentile(values, q):.2f}" if values else ""
