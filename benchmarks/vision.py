"""Milliseconds a batch of classifiers of images and videos, beside what users would pick instead.

The peers' environments are made by `sh benchmarks/peers/environment.sh`. A run that was stopped goes on where it was.
"""

from typing import Any

import numpy as np

from benchmarks.harness.report import Benchmark
from benchmarks.peers.comparison import Column, Comparison
from benchmarks.peers.rounds import Record, Request, Rows
from benchmarks.peers.shapes import Shape

BATCHES = (1, 8)


def random_images(batch: int) -> Request:
    """Which the peer holds (benchmarks/peers/shapes.py)."""

    def request(shape: Shape, rng: np.random.Generator) -> dict[str, Any]:
        return {"batch": batch, "seed": int(rng.integers(2**31)), "pixels": list(shape.pixels)}

    return request


def column(batch: int) -> Column:
    """Milliseconds a batch."""

    def read(record: Record) -> Rows:
        return [(1e3 * seconds, others) for seconds, others, *_ in record["samples"][f"batch {batch}"]]

    return Column(head=f"ms, batch {batch}", read=read)


def main() -> None:
    Comparison(
        benchmark=Benchmark("vision", "Image classifiers beside peers", __doc__),
        kinds=("vision",),
        requests={f"batch {batch}": random_images(batch) for batch in BATCHES},
        columns=[column(batch) for batch in BATCHES],
        runtimes=("onnxruntime", "openvino", "openvino-bf16"),
    ).run()


if __name__ == "__main__":
    main()
