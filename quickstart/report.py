"""What the quickstart shows: one table, a few digits and dates, and where everything lies."""

from __future__ import annotations

import platform
from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.table import Table

from quickstart.answers import Answers
from serving.runtime.base import Array

_SHADES = " .:-=+*#%@"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One model's answers by every way of running it."""

    name: str
    truths: list[str]
    pytorch: Answers
    process: Answers
    served: Answers

    @property
    def equal(self) -> bool:
        """Whether every way gave the same answer to every question."""
        return self.pytorch.answers == self.process.answers == self.served.answers


def print_table(console: Console, outcomes: list[Outcome]) -> None:
    """Print accuracy and latency, served beside in process."""
    table = Table(title=f"held-out questions, one after the other ({platform.machine()}, CPU)")
    for column in ("model", "way", "right", "p50 ms", "p95 ms", "p99 ms", "first token p50 ms", "tokens/s"):
        table.add_column(column, justify="left" if column in ("model", "way") else "right")
    for outcome in outcomes:
        ways = {"PyTorch": outcome.pytorch, "in process": outcome.process, "served, gRPC": outcome.served}
        for way, answers in ways.items():
            table.add_row(outcome.name if way == "PyTorch" else "", way, *_figures(outcome, answers))
        table.add_section()
    console.print(table)


def print_samples(console: Console, images: Array, digits: Outcome, texts: list[str], dates: Outcome) -> None:
    """Print a few images side by side with their labels, and a few texts with their dates."""
    pictures = [_picture(image[0]) for image in images[:5]]
    for line in zip(*pictures, strict=True):
        console.print("   ".join(line), highlight=False, markup=False)
    console.print("   ".join(f"→ {answer}".center(16) for answer in digits.served.answers[:5]), highlight=False)
    for text, answer in list(zip(texts, dates.served.answers, strict=True))[:5]:
        console.print(f"{text:>32} → {answer}", highlight=False, markup=False)


def _figures(outcome: Outcome, answers: Answers) -> list[str]:
    right = round(answers.accuracy(outcome.truths) * len(outcome.truths))
    accuracy = f"{right}/{len(outcome.truths)} = {right / len(outcome.truths):.2%}"
    percentiles = [_percentile(answers.latencies_ms, q) for q in (50, 95, 99)]
    speed = answers.tokens_per_second()
    return [accuracy, *percentiles, _percentile(answers.first_token_ms, 50), f"{speed:.0f}" if speed else ""]


def _percentile(values: list[float], q: float) -> str:
    return f"{np.percentile(values, q):.2f}" if values else ""


def _picture(image: Array) -> list[str]:
    shades = (np.clip(image, 0, 1) * (len(_SHADES) - 1)).round().astype(int)
    return ["".join(_SHADES[shade] * 2 for shade in row) for row in shades]
