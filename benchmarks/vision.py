"""Milliseconds a batch of image classifiers, beside what users would pick instead.

    sh benchmarks/peers/environment.sh && python benchmarks/vision.py [--shapes NAME ...] [--peers WORD ...] [--quick]

A run that was stopped goes on where it was.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.peers.results import milliseconds
from benchmarks.peers.rounds import Record, Request
from benchmarks.peers.session import Benchmark, main
from benchmarks.peers.shapes import Shape

BATCHES = (1, 8)


def question(batch: int) -> Request:
    """Random images, which the peer holds; the seed makes each brighter, so that none comes twice."""

    def request(_: Shape, rng: np.random.Generator) -> dict[str, Any]:
        return {"batch": batch, "seed": int(rng.integers(2**31))}

    return request


def cells(record: Record) -> list[str]:
    """One measure a batch."""
    return [milliseconds(record["samples"][f"batch {batch}"]) for batch in BATCHES]


if __name__ == "__main__":
    main(
        Benchmark(
            name="vision",
            title="Image classifiers beside peers",
            kinds=("vision",),
            requests={f"batch {batch}": question(batch) for batch in BATCHES},
            heads=[f"ms, batch {batch}" for batch in BATCHES],
            cells=cells,
            runtimes=("onnxruntime", "openvino", "openvino-bf16"),
        ),
        str(__doc__).split("\n", 1)[0],
    )
