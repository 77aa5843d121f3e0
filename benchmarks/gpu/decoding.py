"""What the torch runner makes of a GPU: steps of a 1.1 B-parameter Llama beside the bandwidth of its memory.

A step is one token for each row, from token ids on the host to logits on the host. Its limit is what it has to read,
weights and attended keys and values, over the bandwidth of a copy (bytes read and written) measured in the same run.
Variants take turns on the same caches; the figure is the median of all rounds, each the mean of 64 steps behind as many
cached positions as the table says. Weights are random.

    recorded      as served: CUDA graphs, our kernels of attention
    products      the same, products of one or two rows by torch's library
    library       the same, attention by torch's own kernels, and products
    not recorded  as served, kernel by kernel
    compiled      torch.compile of the module with torch's attention, recorded (--compile BATCH …: minutes)
    onnxruntime   the CUDA provider on an artefact of `export onnx` (--onnx), which need not have this shape

``--quick`` is a trial of the script on tiny shapes, on any machine.
"""

import argparse
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, cast

import numpy as np
import torch
from torch import nn

from attendant.manifest import Manifest
from attendant.signature import GraphSignature
from benchmarks.gpu.clock import describe_gpu
from benchmarks.gpu.modules import attention_for, build_in_bfloat16, seconds, with_the_same_weights
from benchmarks.harness.report import Benchmark, table
from benchmarks.harness.rounds import alternate
from models.families.decoder import Decoder
from models.layers.attend import attend_in_groups
from models.layers.few_rows import step_by
from models.presets import PRESETS
from models.tasks import generate
from serving.runtime.cached_decoder import CachedDecoder
from serving.runtime.torch.buffer import TorchBuffer
from serving.runtime.torch.runner import TorchRunner

BENCHMARK = Benchmark("gpu-decoding", "Decoding on a GPU", __doc__, "benchmarks.gpu.decoding")
GB = 1e9
VARIANTS = ("recorded", "products", "library", "not recorded")
LIMIT_SHARE = 0.7
"""Of the bandwidth limit, what a step of one row as it is served is to reach."""
Row = dict[str, Any]


class Shapes:
    """What is measured: the published sizes, or those of a trial."""

    def __init__(self, quick: bool) -> None:
        llama = PRESETS["tinyllama-1.1b"].config
        tiny = {"layers": 2, "width": 64, "heads": 4, "kv_heads": 1, "head_size": 16, "mlp_width": 96}
        self.llama = replace(llama, **tiny, vocabulary_size=128, max_length=256) if quick else llama
        self.batches: tuple[int, ...] = (1, 2) if quick else (1, 8, 32)
        self.behind: tuple[int, ...] = (16, 64) if quick else (128, 1920)
        self.steps, self.rounds = (4, 2) if quick else (64, 7)
        self.copied = 2**20 if quick else 2**31


def main() -> None:
    parser = BENCHMARK.parser()
    parser.add_argument("--onnx", type=Path, help="an artefact of `export onnx` for ONNX Runtime's CUDA provider")
    parser.add_argument("--compile", type=int, nargs="*", default=[], help="batches to measure torch.compile of")
    parser.add_argument("--variants", nargs="*", choices=VARIANTS, default=VARIANTS, help="that are measured")
    parser.add_argument("--quick", action="store_true", help="a trial on tiny shapes, on any machine")
    args = parser.parse_args()
    if not args.quick and not torch.cuda.is_available():
        parser.error("expected a GPU that torch sees; found none; try --quick")
    found = measure(args)
    BENCHMARK.publish(args, report(found), found, describe_gpu())


def report(found: dict[str, Any]) -> Iterator[str]:
    copies = " and ".join(f"{one:.0f}" for one in found["copy_gb_per_s"])
    yield f"A copy moves {copies} GB/s, before and after.\n"
    rows = []
    for one in found["decoding"]:
        if "missing" in one:
            rows.append([one["variant"], f"not here: {one['missing']}", "", "", "", ""])
            continue
        figures = [f"{one['step_ms']:.3f}", f"{one['tokens_per_s']:.0f}", f"{one['share_of_limit']:.0%}"]
        rows.append([one["variant"], one["batch"], one["behind"], *figures])
    yield table(["variant", "batch", "behind", "step ms", "tokens/s", "share of the bandwidth limit"], rows)
    alone = [one["share_of_limit"] for one in found["decoding"] if one["variant"] == "recorded" and one["batch"] == 1]
    verdict = "reached" if min(alone) >= LIMIT_SHARE else "missed"
    yield f"\nAt batch 1, recorded, at least {LIMIT_SHARE:.0%} of the limit: {verdict} ({min(alone):.0%})."


@torch.no_grad()
def measure(args: argparse.Namespace) -> dict[str, Any]:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    shapes = Shapes(args.quick)
    if args.compile:
        torch._dynamo.config.recompile_limit = 64  # one for each batch and attended length
    bandwidth = copy_bandwidth(device, shapes.copied)
    module = build_in_bfloat16(lambda: Decoder(shapes.llama), device)
    decoding: list[Row] = []
    for batch in shapes.batches:
        variants = [*args.variants, *(["compiled"] if batch in args.compile else [])]
        decoding += decoding_rows(module, shapes, batch, variants, bandwidth, device)
    if args.onnx is not None:
        decoding += list(onnx_rows(args.onnx, shapes, bandwidth, device))
    del module
    return {"copy_gb_per_s": [bandwidth / GB, copy_bandwidth(device, shapes.copied) / GB], "decoding": decoding}


def row(variant: str, batch: int, behind: int, taken_s: float, limit_s: float) -> Row:
    return {
        "variant": variant,
        "batch": batch,
        "behind": behind,
        "step_ms": taken_s * 1e3,
        "tokens_per_s": batch / taken_s,
        "share_of_limit": limit_s / taken_s,
    }


def copy_bandwidth(device: torch.device, size: int) -> float:
    """Bytes a second that a copy reads and writes."""
    source = torch.ones(size, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return 2 * size / min(seconds(lambda: target.copy_(source), 5, device) for _ in range(5))


def decoding_rows(
    module: nn.Module, shapes: Shapes, batch: int, variants: list[str], bandwidth: float, device: torch.device
) -> Iterator[Row]:
    """One row for each length behind and variant."""
    (graph,) = generate.graphs(module)  # type: ignore[arg-type]
    weights = sum(one.nbytes for name, one in module.named_parameters() if name != "embedding.weight")
    signature = in_bfloat16(graph.signature)
    runners = {name: runner_of(name, signature, graph.module, device) for name in variants}
    caches = random_caches(runners[variants[0]], batch)
    for behind in shapes.behind:
        steps = {name: step_of(runner, caches, batch) for name, runner in runners.items()}
        times = in_turn(steps, behind, shapes)
        attended = behind + shapes.steps / 2
        read = weights + sum(cache.nbytes for cache in caches.values()) * attended / shapes.llama.max_length
        yield from (row(name, batch, behind, taken, read / bandwidth) for name, taken in times.items())


def onnx_rows(folder: Path, shapes: Shapes, bandwidth: float, device: torch.device) -> Iterator[Row]:
    """The same of ONNX Runtime, or why not."""
    import onnxruntime

    from benchmarks.gpu.ort_on_device import PROVIDERS, OrtOnDevice

    name, found = f"onnxruntime {onnxruntime.__version__}, {folder.name}", onnxruntime.get_available_providers()
    if PROVIDERS[device.type] not in found:
        yield {"variant": name, "missing": f"{PROVIDERS[device.type]}: there are {found}"}
        return
    runner = OrtOnDevice(folder, device)
    capacity = int(runner.signature.input(next(iter(runner.signature.aliases.values()))).axes[2])
    fitting = [length for length in shapes.behind if length + shapes.steps <= capacity]
    if not fitting:
        yield {"variant": name, "missing": f"a cache of {shapes.behind[0] + shapes.steps} positions: it has {capacity}"}
        return
    weights = sum(path.stat().st_size for path in folder.glob("decoder.onnx*")) - table_bytes(folder)
    for batch in shapes.batches:
        caches = random_caches(runner, batch)
        for behind in fitting:
            (taken,) = in_turn({name: step_of(runner, caches, batch)}, behind, shapes).values()
            read = weights + sum(cache.nbytes for cache in caches.values()) * (behind + shapes.steps / 2) / capacity
            yield row(name, batch, behind, taken, read / bandwidth)


def table_bytes(folder: Path) -> int:
    """Of the embedding of tokens, of which a step reads a few rows; none where it is the head as well."""
    manifest = Manifest.read(folder)
    config = manifest.config
    if config.get("tied", True) or not {"vocabulary_size", "width"} <= config.keys():
        return 0
    return int(config["vocabulary_size"] * config["width"]) * (4 if manifest.precision == "fp32" else 2)


def runner_of(variant: str, signature: GraphSignature, module: nn.Module, device: torch.device) -> TorchRunner:
    """A runner of a module that all variants share."""
    by_torch = variant in ("library", "compiled")
    module = module if variant in ("recorded", "not recorded") else with_the_same_weights(module)
    attention = attend_in_groups if by_torch else attention_for(device)
    if variant == "compiled":
        module = cast(nn.Module, torch.compile(module, dynamic=False))
    recorder = (lambda warm_up, work: work) if variant == "not recorded" or device.type == "cpu" else None
    runner = TorchRunner(signature, module, device, torch.bfloat16, recorder=recorder, attention=attention)
    if variant == "products":
        step_by(module, None)
    return runner


def in_bfloat16(signature: GraphSignature) -> GraphSignature:
    kept = {name for pair in signature.aliases.items() for name in pair}
    inputs, outputs = (
        tuple(replace(spec, dtype="bfloat16") if spec.name in kept else spec for spec in specs)
        for specs in (signature.inputs, signature.outputs)
    )
    return replace(signature, inputs=inputs, outputs=outputs)


def random_caches(runner: Any, batch: int) -> dict[str, TorchBuffer]:
    caches = {name: runner.allocate(name, {"batch": batch}) for name in runner.signature.aliases.values()}
    for cache in caches.values():
        cache.tensor.normal_()
    return caches


def step_of(runner: Any, caches: dict[str, TorchBuffer], batch: int) -> Callable[[int], Any]:
    """A step behind so many positions of caches that all variants share."""
    decoder, token_ids = CachedDecoder.over(runner, caches, {}), np.full((batch, 1), 5)
    return lambda behind: decoder.step(token_ids, np.full(batch, behind))["logits"]


def in_turn(steps: dict[str, Callable[[int], Any]], behind: int, shapes: Shapes) -> dict[str, float]:
    """Seconds of a step of each variant."""

    def take_steps(step: Callable[[int], Any]) -> None:
        for position in range(shapes.steps):
            step(behind + position)

    for step in steps.values():
        step(behind)
    times = alternate({name: partial(take_steps, step) for name, step in steps.items()}, shapes.rounds, warm_up=0)
    return {name: median(seconds) / shapes.steps for name, seconds in times.items()}


if __name__ == "__main__":
    main()
