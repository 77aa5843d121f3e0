"""What the torch runner makes of prompts on a GPU: a 1.1 B-parameter Llama beside the products that the GPU can do.

One call reads whole prompts into empty caches, from token ids on the host to the logits of their last tokens on the
host. Its limit is the multiply-adds of the layers, of causal attention and of the head, over the rate of a product of
8192 × 8192 float16 matrices measured in the same run. Variants take turns on the same caches; the figure is the median
of all rounds, each the mean of five calls in a row. Weights are random.

    torch runner        as served: our kernels of attention
    library attention   the same by ``torch.nn.functional.scaled_dot_product_attention``
    torch.compile       of the module with that attention, compiled for this very shape (--compile TOKENS …: minutes)

``--quick`` is a trial of the script on tiny shapes, on any machine.
"""

import argparse
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks.gpu.clock import describe_gpu, roofs
from benchmarks.gpu.decoding import Shapes, in_bfloat16, random_caches, runner_of
from benchmarks.gpu.modules import build_in_bfloat16, seconds
from benchmarks.harness.report import Benchmark, table
from benchmarks.harness.rounds import alternate
from models.families.decoder import Decoder, DecoderConfig
from models.tasks import generate
from serving.runtime.cached_decoder import CachedDecoder

BENCHMARK = Benchmark("gpu-prefill", "Prompts on a GPU", __doc__, "benchmarks.gpu.prefill")
RUNNERS = {"torch runner": "recorded", "library attention": "library", "torch.compile": "compiled"}
"""What the page calls each runner of :func:`benchmarks.gpu.decoding.runner_of`."""
IN_A_ROW = 5
Row = dict[str, Any]


def main() -> None:
    parser = BENCHMARK.parser()
    parser.add_argument("--tokens", type=int, nargs="*", help="lengths of prompts; 128, 512 and 1536 if not given")
    parser.add_argument("--batches", type=int, nargs="*", help="prompts at once; 1 and 8 if not given")
    parser.add_argument("--compile", type=int, nargs="*", default=[], help="lengths to measure torch.compile of")
    parser.add_argument("--quick", action="store_true", help="a trial on tiny shapes, on any machine")
    args = parser.parse_args()
    if not args.quick and not torch.cuda.is_available():
        parser.error("expected a GPU that torch sees; found none; try --quick")
    found = measure(args)
    BENCHMARK.publish(args, report(found), found, describe_gpu())


@torch.no_grad()
def measure(args: argparse.Namespace) -> dict[str, Any]:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    shapes = Shapes(args.quick)
    torch._dynamo.config.recompile_limit = 64  # one for each shape
    roof = roofs(device, *((2**16, 64) if args.quick else ())).flops
    module = build_in_bfloat16(lambda: Decoder(shapes.llama), device)
    rows = []
    for batch in args.batches or ((1, 2) if args.quick else (1, 8)):
        for tokens in args.tokens or ((16, 64) if args.quick else (128, 512, 1536)):
            names = [name for name in RUNNERS if name != "torch.compile" or tokens in args.compile]
            taken = times_of(module, batch, tokens, names, shapes.rounds, device)
            limit_s = operations(shapes.llama, batch, tokens) / roof
            rows += [row(name, batch, tokens, each_s, limit_s) for name, each_s in taken.items()]
    return {"product_tflops": roof / 1e12, "prompts": rows}


def times_of(
    module: nn.Module, batch: int, tokens: int, names: list[str], rounds: int, device: torch.device
) -> dict[str, float]:
    """Seconds of a call of each variant."""
    (graph,) = generate.graphs(module)  # type: ignore[arg-type]
    runners = {name: runner_of(RUNNERS[name], in_bfloat16(graph.signature), graph.module, device) for name in names}
    caches = random_caches(runners[names[0]], batch)
    token_ids, start, last = np.full((batch, tokens), 5), np.zeros(batch, np.int64), np.full((batch, 1), tokens - 1)

    def call_of(name: str) -> Callable[[], Any]:
        decoder = CachedDecoder.over(runners[name], caches, {})
        return lambda: decoder.step(token_ids, start, last)["logits"]

    calls = {name: call_of(name) for name in names}
    times = alternate(calls, rounds, lambda call: seconds(call, IN_A_ROW, device))
    return {name: median(taken) for name, taken in times.items()}


def operations(llama: DecoderConfig, batch: int, tokens: int) -> float:
    """Of a call: of the layers' products, of attention up to its diagonal, and of a head of one position a prompt."""
    heads, kept = llama.heads * llama.head_size, llama.kv_heads * llama.head_size
    layer = llama.width * (2 * heads + 2 * kept + 3 * llama.mlp_width)
    attended = heads * tokens * (tokens + 1)  # scores and sums: twice half of tokens²
    return 2.0 * batch * (llama.layers * (tokens * layer + attended) + llama.width * llama.vocabulary_size)


def row(variant: str, batch: int, tokens: int, taken_s: float, limit_s: float) -> Row:
    rate = batch * tokens / taken_s
    figures = {"ms": taken_s * 1e3, "tokens_per_s": rate, "share_of_limit": limit_s / taken_s}
    return {"variant": variant, "batch": batch, "tokens": tokens, **figures}


def report(found: dict[str, Any]) -> Iterator[str]:
    yield f"A product of large matrices: {found['product_tflops']:.0f} TFLOP/s.\n"
    rows = []
    for one in found["prompts"]:
        figures = [f"{one['ms']:.2f}", f"{one['tokens_per_s']:.0f}", f"{one['share_of_limit']:.0%}"]
        rows.append([one["variant"], one["batch"], one["tokens"], *figures])
    yield table(["variant", "batch", "tokens each", "ms", "tokens/s", "share of the products' limit"], rows)


if __name__ == "__main__":
    main()
