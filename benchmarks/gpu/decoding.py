"""What the torch runner makes of a GPU: steps of a 1.1 B-parameter Llama beside the bandwidth of its memory.

    python benchmarks/gpu/decoding.py [--onnx ARTEFACT] [--compile] [--quick] [--out FOLDER]

A step is one token for each row, from token ids on the host to logits on the host. Its limit is what it has to read,
weights and attended keys and values, over the bandwidth of a copy (bytes read and written) measured in the same run.
Variants take turns on the same caches; the figure is the median of all rounds, each the mean of 64 steps behind as many
cached positions as the table says. Weights are random.

    recorded      as served: CUDA graphs, our kernels of attention
    library       the same, attention by torch's own kernels
    not recorded  as served, kernel by kernel
    compiled      torch.compile of the module with torch's attention, recorded (--compile: minutes)
    onnxruntime   the CUDA provider on an artefact of `export onnx` (--onnx), which need not have this shape

``--quick`` is a trial of the script on tiny shapes, on any machine.
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import nn

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT))

from attendant.manifest import Manifest  # noqa: E402
from attendant.signature import GraphSignature  # noqa: E402
from benchmarks.gpu.decoding_page import Row, page, row  # noqa: E402
from benchmarks.gpu.modules import attention_for, made, seconds, with_the_same_weights  # noqa: E402
from models.families.decoder import Decoder  # noqa: E402
from models.layers.attend import attend_in_groups  # noqa: E402
from models.presets import PRESETS  # noqa: E402
from models.tasks import generate  # noqa: E402
from serving.runtime.cached_decoder import CachedDecoder  # noqa: E402
from serving.runtime.torch.buffer import TorchBuffer  # noqa: E402
from serving.runtime.torch.runner import TorchRunner  # noqa: E402

GB = 1e9
STEPS, ROUNDS = 64, 7


class Shapes:
    """What is measured: the published sizes, or those of a trial."""

    def __init__(self, quick: bool) -> None:
        llama = PRESETS["tinyllama-1.1b"].config
        tiny = {"layers": 2, "width": 64, "heads": 4, "kv_heads": 1, "head_size": 16, "mlp_width": 96}
        self.llama = replace(llama, **tiny, vocabulary_size=128, max_length=256) if quick else llama
        self.batches, self.behind = ((1, 2), (16, 64)) if quick else ((1, 8, 32), (128, 1920))
        self.steps, self.rounds = (4, 2) if quick else (STEPS, ROUNDS)
        self.copied = 2**20 if quick else 2**31


def main() -> None:
    """Measure everything, print it, and write it down where a folder is given."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("--onnx", type=Path, help="an artefact of `export onnx` for ONNX Runtime's CUDA provider")
    parser.add_argument("--compile", action="store_true", help="measure torch.compile as well")
    parser.add_argument("--quick", action="store_true", help="a trial on tiny shapes, on any machine")
    parser.add_argument("--out", type=Path, help="folder for <date>-gpu-decoding.json and .md")
    given = parser.parse_args()
    if not given.quick and not torch.cuda.is_available():
        parser.error("expected a GPU that torch sees; found none; try --quick")
    found = measured(given)
    text = page(found)
    print(text)  # noqa: T201
    if given.out:
        given.out.mkdir(parents=True, exist_ok=True)
        stem = f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}-gpu-decoding"
        (given.out / f"{stem}.json").write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
        (given.out / f"{stem}.md").write_text(text, encoding="utf-8")


@torch.no_grad()
def measured(given: argparse.Namespace) -> dict[str, Any]:
    """Every reading of one run."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    shapes, variants = Shapes(given.quick), ["recorded", "library", "not recorded"] + ["compiled"] * given.compile
    if given.compile:
        torch._dynamo.config.recompile_limit = 64  # one for each batch and attended length
    bandwidth = copy_bandwidth(device, shapes.copied)
    module = made(lambda: Decoder(shapes.llama), device)
    decoding = list(decoding_rows(module, shapes, variants, bandwidth, device))
    if given.onnx is not None:
        decoding += list(onnx_rows(given.onnx, shapes, bandwidth, device))
    del module
    return {
        "command": "python " + " ".join(sys.argv),
        "device": torch.cuda.get_device_name() if device.type == "cuda" else "a CPU: figures mean nothing",
        "torch": torch.__version__,
        "copy_gb_per_s": [bandwidth / GB, copy_bandwidth(device, shapes.copied) / GB],
        "decoding": decoding,
    }


def copy_bandwidth(device: torch.device, size: int) -> float:
    """Bytes a second that a copy reads and writes."""
    source = torch.ones(size, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return 2 * size / min(seconds(lambda: target.copy_(source), 5, device) for _ in range(5))


def decoding_rows(
    module: nn.Module, shapes: Shapes, variants: list[str], bandwidth: float, device: torch.device
) -> Iterator[Row]:
    """One row for each batch, length behind and variant."""
    (graph,) = generate.graphs(module)  # type: ignore[arg-type]
    weights = sum(one.nbytes for name, one in module.named_parameters() if name != "embedding.weight")
    signature = in_bfloat16(graph.signature)
    for batch in shapes.batches:
        runners = {name: runner_of(name, signature, graph.module, device) for name in variants}
        caches = random_caches(runners["recorded"], batch)
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
    module = with_the_same_weights(module) if by_torch else module
    attention = attend_in_groups if by_torch else attention_for(device)
    module = torch.compile(module, dynamic=False) if variant == "compiled" else module
    recorder = (lambda warm_up, work: work) if variant == "not recorded" or device.type == "cpu" else None
    return TorchRunner(signature, module, device, torch.bfloat16, recorder=recorder, attention=attention)


def in_bfloat16(signature: GraphSignature) -> GraphSignature:
    """The signature with caches in bfloat16."""
    kept = {name for pair in signature.aliases.items() for name in pair}
    inputs, outputs = (
        tuple(replace(spec, dtype="bfloat16") if spec.name in kept else spec for spec in specs)
        for specs in (signature.inputs, signature.outputs)
    )
    return replace(signature, inputs=inputs, outputs=outputs)


def random_caches(runner: Any, batch: int) -> dict[str, TorchBuffer]:
    """Caches as if they had been filled."""
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
    times: dict[str, list[float]] = {name: [] for name in steps}
    for step in steps.values():
        step(behind)
    for _ in range(shapes.rounds):
        for name, step in steps.items():
            began = time.perf_counter()
            for position in range(shapes.steps):
                step(behind + position)
            times[name].append((time.perf_counter() - began) / shapes.steps)
    return {name: median(taken) for name, taken in times.items()}


if __name__ == "__main__":
    main()
