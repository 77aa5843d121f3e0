"""Continuous batching of a 124-million-parameter decoder: what more sequences at once gain.

    python benchmarks/continuous_batching.py [--precisions P ...] [--rounds N] [--out DIR] [--scratch DIR]

Tokens per second of 1, 2, 4 and 8 sequences in flight, greedy, in turns, in process and behind Triton with as many
streams. Two threads; random weights of GPT-2 small's shape.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.generation.engines import loaded  # noqa: E402
from benchmarks.generation.gpt2_small import NAME, gpt2_small  # noqa: E402
from benchmarks.generation.quiet import NOTE, Sample, counting, sampled  # noqa: E402
from benchmarks.generation.served import server_over  # noqa: E402
from benchmarks.generation.throughput import rate_in_process, rate_served  # noqa: E402
from benchmarks.generation.written import preamble, table, write_result  # noqa: E402
from serving.engine.settings import EngineSettings  # noqa: E402
from serving.engine.text_generation_model import TextGenerationModel  # noqa: E402

FLIGHTS = (1, 2, 4, 8)
THREADS = 2
TARGET = 3.0
SETTINGS = EngineSettings(prefix_cache_bytes=0)
Rates = dict[str, list[Sample]]


def main() -> None:
    """Measure, print, and write."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("--precisions", nargs="+", default=["int8"], help="of the graph")
    parser.add_argument("--rounds", type=int, default=7, help="of each number in flight")
    parser.add_argument("--tokens", type=int, default=64, help="of each answer")
    parser.add_argument("--patience", type=float, default=5.0, help="seconds to wait for a quiet machine, a sample")
    parser.add_argument("--out", type=Path, help="folder for <date>-continuous-batching.*; none if absent")
    parser.add_argument("--scratch", type=Path, help="folder for artefacts; kept if given")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        found = measured(asked, asked.scratch or Path(temporary))
    text = report(found)
    if asked.out is not None:
        write_result(asked.out, "continuous-batching", text, found)
    sys.stdout.write(text + "\n")


def measured(asked: argparse.Namespace, scratch: Path) -> dict[str, Any]:
    """Everything, as JSON."""
    rates: dict[str, dict[str, Rates]] = {}
    for precision in asked.precisions:
        artefact = gpt2_small(scratch, precision)
        model = loaded(artefact, SETTINGS, THREADS)
        inside = in_turns(model, asked.rounds, asked.tokens, asked.patience)
        below = model.vocabulary_size
        del model  # its threads would spin beside the server's
        outside = served_in_turns(
            artefact, scratch / f"served-{precision}", below, asked.rounds, asked.tokens, asked.patience
        )
        rates[precision] = {"in process": inside, "behind Triton": outside}
    return {"rates": rates, "tokens": asked.tokens}


def in_turns(model: TextGenerationModel, rounds: int, tokens: int, patience_s: float) -> Rates:
    """Tokens per second of each number in flight, in process; the first round warms up."""
    rates: Rates = {str(flights): [] for flights in FLIGHTS}
    for number in range(rounds + 1):
        for flights in FLIGHTS:
            call = partial(rate_in_process, model, model.engine, flights, tokens, number)
            rates[str(flights)].append(sampled(call, patience_s))
    return {name: values[1:] for name, values in rates.items()}


def served_in_turns(artefact: Path, scratch: Path, below: int, rounds: int, tokens: int, patience_s: float) -> Rates:
    """The same by streams from a tritonserver."""
    rates: Rates = {str(flights): [] for flights in FLIGHTS}
    with server_over({NAME: artefact}, scratch, SETTINGS, THREADS) as server:
        for number in range(rounds + 1):
            for flights in FLIGHTS:
                call = partial(rate_served, server.endpoints.grpc, NAME, below, flights, tokens, number)
                rates[str(flights)].append(sampled(lambda: asyncio.run(call()), patience_s, server.group))  # noqa: B023
    return {name: values[1:] for name, values in rates.items()}


def report(found: dict[str, Any]) -> str:
    """Markdown."""
    rows = []
    for precision, places in found["rates"].items():
        for place, rates in places.items():
            gain = np.median(counting(rates["8"])[0]) / np.median(counting(rates["1"])[0])
            verdict = "met" if gain >= TARGET else "missed"
            rows.append([f"{precision}, {place}", *map(_quartiles, rates.values()), f"{gain:.2f}× ({verdict})"])
    heads = ["tokens/s", *(f"{flights} in flight" for flights in FLIGHTS), f"8 over 1, target {TARGET:g}×"]
    return "\n".join(
        [
            *preamble("Continuous batching", "benchmarks/continuous_batching.py", sys.argv[1:]),
            "Median (first … third quartile; number) of rounds in turns. " + NOTE,
            f"Prompts of 32 random tokens, answers of {found['tokens']}, counted from the moment when every "
            f"sequence has its first token; {THREADS} threads.\n",
            table(heads, rows),
        ]
    )


def _quartiles(samples: list[Sample]) -> str:
    values, mark = counting(samples)
    low, middle, high = np.percentile(values, (25, 50, 75))
    return f"{middle:.0f} ({low:.0f} … {high:.0f}; {len(values)}){mark}"


if __name__ == "__main__":
    main()
