"""Time to the first token and tokens per second of decoders and a translator, beside what users would pick instead.

    sh benchmarks/peers/environment.sh && python benchmarks/decode.py [--shapes NAME ...] [--peers WORD ...] [--quick]

The rate is that between two lengths, so that the prompt's cost is not in it. A run that was stopped goes on where it
was.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.peers.results import milliseconds, rate
from benchmarks.peers.rounds import Record, Request
from benchmarks.peers.session import Benchmark, main
from benchmarks.peers.shapes import Shape

LENGTHS = {1: 48, 8: 28}  # batch → tokens behind the first one


def question(batch: int, new_tokens: int) -> Request:
    """Random prompts; of a translator, random sources."""

    def request(shape: Shape, rng: np.random.Generator) -> dict[str, Any]:
        prompts = rng.integers(3, shape.vocabulary - 1, (batch, shape.prompt)).tolist()
        return {"prompts": prompts, "new_tokens": new_tokens}

    return request


def cells(record: Record) -> list[str]:
    """Both measures at both batches."""
    samples = record["samples"]
    return [
        text
        for batch, tokens in LENGTHS.items()
        for text in (
            milliseconds(samples[f"first, batch {batch}"]),
            rate(samples[f"long, batch {batch}"], samples[f"first, batch {batch}"], batch * tokens),
        )
    ]


if __name__ == "__main__":
    requests: dict[str, Request] = {}
    for size, length in LENGTHS.items():
        requests |= {f"first, batch {size}": question(size, 1), f"long, batch {size}": question(size, 1 + length)}
    main(
        Benchmark(
            name="decode",
            title="Decoding beside peers",
            kinds=("decoder", "translator"),
            requests=requests,
            heads=[f"{what}, batch {size}" for size in LENGTHS for what in ("TTFT ms", "tokens/s")],
            cells=cells,
            runtimes=("auto",),
        ),
        str(__doc__).split("\n", 1)[0],
    )
