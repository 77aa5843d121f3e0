"""What a mixed load made of each chunk budget, as a table and as a plot."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.generation.mixed_load import ANSWER, DECODING, LONGEST, SHORTEST
from benchmarks.generation.written import table

_HEADS = (
    "chunk budget",
    "arrivals",
    "TTFT p50, ms",
    "TTFT p95, ms",
    "ITL p50, ms",
    "ITL p95, ms",
    "ITL p95 while prompts are read, ms",
    "ITL largest, ms",
    "a chunk and a decode step alone, ms",
    "TTFT p95 over its line's steps",
    "processors used by others",
)


def waiting_table(found: dict[str, Any]) -> Iterator[str]:
    """The table with its explanation."""
    yield "## Waiting under a mixed load\n"
    yield (
        f"{DECODING} sequences are decoded all the time; prompts of {SHORTEST} to {LONGEST} tokens arrive at random, "
        f"{found['rate']:g} a second for {found['seconds']:g} s, the same for every budget, and are answered with "
        f"{ANSWER} tokens each. ITL is that of the sequences that are decoded all the time. The last column but one is "
        "the p95 of each arrival's TTFT over (chunks in its line + 1) × (a chunk and a decode step alone): how "
        "far the line explains the wait.\n"
    )
    yield table(_HEADS, [_row(one) for one in found["waiting"]])


def plot(waiting: list[dict[str, Any]], path: Path) -> None:
    """Left the time between tokens by budget, right the time to the first token by the chunks in line."""
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    budgets = [one["budget"] for one in waiting]
    for kind, name, share in (
        ("between_ms", "between tokens", 50),
        ("between_ms", "between tokens", 95),
        ("reading_ms", "between tokens while prompts are read", 95),
    ):
        values = [np.percentile(one[kind], share) for one in waiting]
        left.plot(budgets, values, marker="o", label=f"{name}, p{share}")
    left.plot(budgets, [_step_ms(one) for one in waiting], "k--", label="a chunk and a decode step, alone")
    left.plot(budgets, [np.percentile(one["first_ms"], 95) for one in waiting], "r:", label="to the first token, p95")
    left.set(xscale="log", yscale="log", xlabel="chunk budget, tokens a step", ylabel="ms")
    left.set_xticks(budgets, [str(one) for one in budgets])
    left.minorticks_off()
    left.legend(fontsize="small")
    for one in waiting:
        (points,) = right.plot(one["line"], one["first_ms"], ".", label=f"budget {one['budget']}")
        chunks = np.arange(1, max(one["line"]) + 2)
        right.plot(chunks, (chunks + 1) * _step_ms(one), "-", color=points.get_color(), alpha=0.6)
    right.set(xlabel="chunks in line at arrival, its own included", ylabel="to the first token, ms")
    right.set(xscale="log", yscale="log", title="lines: (chunks + 1) × a chunk and a decode step alone")
    right.legend(fontsize="small")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _row(one: dict[str, Any]) -> list[str]:
    first, between = np.percentile(one["first_ms"], (50, 95)), np.percentile(one["between_ms"], (50, 95))
    reading = np.percentile(one["reading_ms"], 95)
    values = [*first, *between, reading, max(one["between_ms"]), _step_ms(one)]
    over = np.percentile(np.array(one["first_ms"]) / ((np.array(one["line"]) + 1) * _step_ms(one)), 95)
    return [
        str(one["budget"]),
        str(len(one["first_ms"])),
        *(f"{value:.1f}" for value in values),
        f"{over:.2f}",
        f"{one['foreign']:.0%}",
    ]


def _step_ms(one: dict[str, Any]) -> float:
    return float(one["chunk_ms"] + one["decode_ms"])
