"""Tokens per second of a translator's answers by beam search, beside what users would pick instead.

The peers' environments are made by `sh benchmarks/peers/environment.sh`. Ours are decoded by the engine that serves
them. A run that was stopped goes on where it was.
"""

from typing import Any

import numpy as np

from benchmarks.harness.report import Benchmark
from benchmarks.peers.comparison import Column, Comparison
from benchmarks.peers.rounds import Record, Request, Rows
from benchmarks.peers.shapes import Shape

BATCHES, BEAMS, LENGTH = (1, 8), 4, 28


def random_sources(batch: int) -> Request:
    """All answers are as long."""

    def request(shape: Shape, rng: np.random.Generator) -> dict[str, Any]:
        prompts = rng.integers(3, shape.vocabulary - 1, (batch, shape.prompt)).tolist()
        return {"prompts": prompts, "new_tokens": LENGTH, "beams": BEAMS}

    return request


def column(batch: int) -> Column:
    """Tokens of the answers a second, each source's best beam alone, from the request to the whole answer."""

    def read(record: Record) -> Rows:
        return [(batch * LENGTH / seconds, others) for seconds, others, *_ in record["samples"][f"batch {batch}"]]

    return Column(head=f"tokens/s, {BEAMS} beams, batch {batch}", read=read, form=".0f", is_rate=True)


def main() -> None:
    Comparison(
        benchmark=Benchmark("beams", "Beam search beside peers", __doc__),
        kinds=("translator",),
        requests={f"batch {batch}": random_sources(batch) for batch in BATCHES},
        columns=[column(batch) for batch in BATCHES],
        runtimes=("auto",),
    ).run()


if __name__ == "__main__":
    main()
