"""Images a second on a GPU: the torch runner and TensorRT's, beside the bare module and torch.compile.

From pixels on the device to logits on the host, bfloat16, random weights; variants take turns, and the figure is the
median of all rounds. Each batch is compiled for itself.

    torch runner        as served: our kernels of attention
    library attention   the same by ``torch.nn.functional.scaled_dot_product_attention``
    the module itself   what a loop in a notebook would reach
    torch.compile       of the module, by default and max-autotune (which has CUDA graphs); compilation is not counted
    engine              an artefact with engines (--engines), in its own precision
    onnxruntime         the CUDA provider on an artefact of `export onnx` (--onnx), in its own precision

``--quick`` is a trial of the script on the tiny preset of the same kind, on any machine, without torch.compile.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import nn

from attendant.manifest import Manifest
from benchmarks.gpu.clock import describe_gpu
from benchmarks.gpu.modules import attention_for, build_in_bfloat16, seconds, with_the_same_weights
from benchmarks.harness.report import Benchmark, table
from benchmarks.harness.rounds import alternate
from models.layers.attend import Kernel, attend_in_groups
from models.presets import PRESETS
from models.registry import FAMILIES
from models.tasks import classify
from serving.runtime.base import numpy_dtype
from serving.runtime.create_runners import create_runners
from serving.runtime.torch.runner import TorchRunner

BENCHMARK = Benchmark("gpu-vision", "Images on a GPU", __doc__, "benchmarks.gpu.vision")
ROUNDS, IN_A_ROW = 7, 5
MODES = ("default", "max-autotune")
TINY = {"vit-b-16": "vit-tiny", "swin-t": "swin-tiny", "swin-v2-t": "swin-v2-tiny"}
"""What can be measured, and what stands for it in a trial."""
Call = Callable[[], Any]


def main() -> None:
    parser = BENCHMARK.parser()
    parser.add_argument("--preset", default="vit-b-16", choices=sorted(TINY), help="of whose sizes the model is")
    parser.add_argument("--engines", type=Path, help="an artefact of such a model with engines, for TensorRT's runner")
    parser.add_argument("--onnx", type=Path, help="an artefact of such a model for ONNX Runtime's CUDA provider")
    parser.add_argument("--compile", nargs="*", choices=MODES, default=MODES, help="how torch.compile does it")
    parser.add_argument("--batches", type=int, nargs="*", default=[1, 8, 32, 128], help="images at once")
    parser.add_argument("--quick", action="store_true", help="a trial on a tiny shape, on any machine")
    args = parser.parse_args()
    if not args.quick and not torch.cuda.is_available():
        parser.error("expected a GPU that torch sees; found none; try --quick")
    found = measure(args)
    BENCHMARK.publish(args, report(found), found, describe_gpu(), variant=args.preset)


@torch.no_grad()
def measure(args: argparse.Namespace) -> dict[str, Any]:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    name = TINY[args.preset] if args.quick else args.preset
    preset = PRESETS[name]
    model = build_in_bfloat16(lambda: FAMILIES[preset.family].build(preset.config), device)
    rows = []
    for batch in (1, 2) if args.quick else args.batches:
        calls = dict(calls_of(model, batch, device, () if args.quick else args.compile))
        if args.engines is not None:
            calls["engine"] = engine_call(args.engines, batch)
        if args.onnx is not None:
            calls["onnxruntime"] = onnx_call(args.onnx, batch, device)
        rows += [{"variant": name, "batch": batch, "images_per_s": rate} for name, rate in rates(calls, batch, device)]
    return {"model": name, "images": rows}


def calls_of(model: nn.Module, batch: int, device: torch.device, modes: Sequence[str]) -> Iterator[tuple[str, Call]]:
    """A call a variant, over the same weights."""
    narrow = torch.randn((batch, *pixels_of(model)), device=device, dtype=torch.bfloat16)
    for name, attention in (("torch runner", attention_for(device)), ("library attention", attend_in_groups)):
        yield name, runner_call(model, attention, narrow)
    plain = with_the_same_weights(model)
    yield "the module itself", partial(to_host, plain, narrow)
    torch._dynamo.reset()  # or the second batch would be compiled for any batch
    for mode in modes:
        compiled = torch.compile(plain, mode=mode, dynamic=False)
        yield f"torch.compile, {mode}", partial(to_host, compiled, narrow)


def to_host(module: Callable[[torch.Tensor], torch.Tensor], pixels: torch.Tensor) -> torch.Tensor:
    return module(pixels).float().cpu()


def pixels_of(model: nn.Module) -> tuple[int, ...]:
    (graph,) = classify.graphs(model)
    return tuple(map(int, graph.signature.input("pixels").axes[1:]))


def runner_call(model: nn.Module, attention: Kernel, narrow: torch.Tensor) -> Call:
    """The torch runner, attending by a kernel."""
    (graph,) = classify.graphs(with_the_same_weights(model))
    runner = TorchRunner(graph.signature, graph.module, narrow.device, torch.bfloat16, attention=attention)
    pixels = runner.allocate("pixels", {"batch": len(narrow)})
    pixels.tensor.copy_(narrow)
    return lambda: runner.run({"pixels": pixels})["logits"].numpy()


def engine_call(folder: Path, batch: int) -> Call:
    """TensorRT's runner on its own memory; pixels come from the host."""
    runner = create_runners(folder, Manifest.read(folder))["model"]
    spec = runner.signature.input("pixels")
    pixels = np.zeros(spec.shape({"batch": batch}), numpy_dtype(spec.dtype))
    return lambda: runner.run({"pixels": pixels})["logits"].numpy()


def onnx_call(folder: Path, batch: int, device: torch.device) -> Call:
    """ONNX Runtime's provider of the device, on torch's memory."""
    from benchmarks.gpu.ort_on_device import OrtOnDevice

    runner = OrtOnDevice(folder, device, "model")
    pixels = runner.allocate("pixels", {"batch": batch})
    return lambda: runner.run({"pixels": pixels})["logits"].numpy()


def rates(calls: dict[str, Call], batch: int, device: torch.device) -> Iterator[tuple[str, float]]:
    times = alternate(calls, ROUNDS, lambda call: seconds(call, IN_A_ROW, device))
    return ((name, batch / median(taken)) for name, taken in times.items())


def report(found: dict[str, Any]) -> Iterator[str]:
    """A row a variant and a column a batch."""
    batches = sorted({row["batch"] for row in found["images"]})
    rates = {(row["variant"], row["batch"]): row["images_per_s"] for row in found["images"]}
    yield f"{found['model']}, bfloat16, images a second.\n"
    names = dict.fromkeys(row["variant"] for row in found["images"])
    rows = [[name, *(f"{rates[name, batch]:.0f}" for batch in batches)] for name in names]
    yield table(["variant", *(f"batch {batch}" for batch in batches)], rows)


if __name__ == "__main__":
    main()
