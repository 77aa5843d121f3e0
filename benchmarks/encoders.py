"""Milliseconds a batch of text encoders, beside what users would pick instead.

Every text has 128 tokens. The peers' environments are made by `sh benchmarks/peers/environment.sh`. A run that was
stopped goes on where it was.
"""

from typing import Any

import numpy as np

from benchmarks.harness.report import Benchmark
from benchmarks.peers.comparison import Comparison
from benchmarks.peers.rounds import Request
from benchmarks.peers.shapes import Shape
from benchmarks.vision import BATCHES, column


def random_texts(batch: int) -> Request:
    """None of which has padding."""

    def request(shape: Shape, rng: np.random.Generator) -> dict[str, Any]:
        return {"texts": rng.integers(3, shape.vocabulary - 1, (batch, shape.prompt)).tolist()}

    return request


def main() -> None:
    Comparison(
        benchmark=Benchmark("encoders", "Text encoders beside peers", __doc__),
        kinds=("encoder",),
        requests={f"batch {batch}": random_texts(batch) for batch in BATCHES},
        columns=[column(batch) for batch in BATCHES],
        runtimes=("onnxruntime", "openvino", "openvino-bf16"),
    ).run()


if __name__ == "__main__":
    main()
