"""Time to the first token and tokens per second of decoders and a translator, beside what users would pick instead.

The peers' environments are made by `sh benchmarks/peers/environment.sh`. The rate is that between two lengths, so that
the prompt's cost is not in it. A run that was stopped goes on where it was.
"""

from typing import Any

import numpy as np

from benchmarks.harness.report import Benchmark
from benchmarks.harness.rounds import show_spread
from benchmarks.peers.comparison import Comparison, rate
from benchmarks.peers.rounds import Record, Request
from benchmarks.peers.shapes import Shape

LENGTHS = {1: 48, 8: 28}  # batch → tokens behind the first one


def random_prompts(batch: int, new_tokens: int) -> Request:
    """Of a translator, random sources."""

    def request(shape: Shape, rng: np.random.Generator) -> dict[str, Any]:
        prompts = rng.integers(3, shape.vocabulary - 1, (batch, shape.prompt)).tolist()
        return {"prompts": prompts, "new_tokens": new_tokens}

    return request


def cells(record: Record) -> list[str]:
    texts, samples = [], record["samples"]
    for batch, tokens in LENGTHS.items():
        first, long = samples[f"first, batch {batch}"], samples[f"long, batch {batch}"]
        texts += [show_spread(first, 1e3), rate(long, first, batch * tokens)]
    return texts


def main() -> None:
    requests: dict[str, Request] = {}
    for batch, length in LENGTHS.items():
        requests[f"first, batch {batch}"] = random_prompts(batch, 1)
        requests[f"long, batch {batch}"] = random_prompts(batch, 1 + length)
    Comparison(
        benchmark=Benchmark("decode", "Decoding beside peers", __doc__),
        kinds=("decoder", "translator"),
        requests=requests,
        heads=[f"{what}, batch {batch}" for batch in LENGTHS for what in ("TTFT ms", "tokens/s")],
        cells=cells,
        runtimes=("auto",),
    ).run()


if __name__ == "__main__":
    main()
