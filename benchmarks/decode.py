"""Time to the first token and tokens per second of decoders and a translator, beside what users would pick instead.

The peers' environments are made by `sh benchmarks/peers/environment.sh`. Each peer says when each step of an answer had
its tokens: the rate is that of the steps behind the first, so that the prompt's cost is not in it. A run that was
stopped goes on where it was.
"""

from typing import Any

import numpy as np

from benchmarks.harness.report import Benchmark
from benchmarks.peers.comparison import Column, Comparison
from benchmarks.peers.rounds import Record, Request, Rows
from benchmarks.peers.shapes import Shape

LENGTHS = {1: 48, 8: 28}  # batch → tokens behind the first one


def random_prompts(batch: int, new_tokens: int) -> Request:
    """Of a translator, random sources."""

    def request(shape: Shape, rng: np.random.Generator) -> dict[str, Any]:
        prompts = rng.integers(3, shape.vocabulary - 1, (batch, shape.prompt)).tolist()
        return {"prompts": prompts, "new_tokens": new_tokens}

    return request


def columns(batch: int) -> tuple[Column, Column]:
    """Milliseconds to the first token, and tokens a second of all rows behind it."""

    def first_tokens(record: Record) -> Rows:
        return [(1e3 * steps[0], others) for _, others, steps in record["samples"][f"batch {batch}"]]

    def rates(record: Record) -> Rows:
        rows = record["samples"][f"batch {batch}"]
        return [(batch * (len(steps) - 1) / (steps[-1] - steps[0]), others) for _, others, steps in rows]

    return (
        Column(head=f"TTFT ms, batch {batch}", read=first_tokens),
        Column(head=f"tokens/s, batch {batch}", read=rates, form=".0f", is_rate=True),
    )


def main() -> None:
    Comparison(
        benchmark=Benchmark("decode", "Decoding beside peers", __doc__),
        kinds=("decoder", "translator"),
        requests={f"batch {batch}": random_prompts(batch, 1 + length) for batch, length in LENGTHS.items()},
        columns=[column for batch in LENGTHS for column in columns(batch)],
        runtimes=("auto",),
    ).run()


if __name__ == "__main__":
    main()
