"""Images a second on a GPU: the torch runner and TensorRT's, beside the bare module and torch.compile.

    python benchmarks/gpu/vision.py [--preset vit-b-16] [--engines ARTEFACT] [--onnx ARTEFACT] [--compile MODE …]
                                    [--quick] [--out FOLDER]

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

from __future__ import annotations

import argparse
import datetime
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import nn

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from attendant.manifest import Manifest  # noqa: E402
from benchmarks.gpu.modules import attention_for, made, seconds, with_the_same_weights  # noqa: E402
from models.layers.attend import Kernel, attend_in_groups  # noqa: E402
from models.presets import PRESETS  # noqa: E402
from models.registry import FAMILIES  # noqa: E402
from models.tasks import classify  # noqa: E402
from serving.runtime.base import numpy_dtype  # noqa: E402
from serving.runtime.create_runners import create_runners  # noqa: E402
from serving.runtime.torch.runner import TorchRunner  # noqa: E402

ROUNDS, IN_A_ROW = 7, 5
MODES = ("default", "max-autotune")
TINY = {"vit-b-16": "vit-tiny", "swin-t": "swin-tiny", "swin-v2-t": "swin-v2-tiny"}
"""What can be measured, and what stands for it in a trial."""
Call = Callable[[], Any]
Row = dict[str, Any]


def main() -> None:
    """Measure every batch, print the page, and write it down where a folder is given."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("--preset", default="vit-b-16", choices=sorted(TINY), help="of whose sizes the model is")
    parser.add_argument("--engines", type=Path, help="an artefact of such a model with engines, for TensorRT's runner")
    parser.add_argument("--onnx", type=Path, help="an artefact of such a model for ONNX Runtime's CUDA provider")
    parser.add_argument("--compile", nargs="*", choices=MODES, default=MODES, help="how torch.compile does it")
    parser.add_argument("--quick", action="store_true", help="a trial on a tiny shape, on any machine")
    parser.add_argument("--out", type=Path, help="folder for <date>-gpu-vision.json and .md")
    given = parser.parse_args()
    if not given.quick and not torch.cuda.is_available():
        parser.error("expected a GPU that torch sees; found none; try --quick")
    found = measured(given)
    text = page(found)
    print(text)  # noqa: T201
    if given.out:
        given.out.mkdir(parents=True, exist_ok=True)
        stem = f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}-gpu-vision-{given.preset}"
        (given.out / f"{stem}.json").write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
        (given.out / f"{stem}.md").write_text(text, encoding="utf-8")


@torch.no_grad()
def measured(given: argparse.Namespace) -> dict[str, Any]:
    """Every reading of one run."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    name = TINY[given.preset] if given.quick else given.preset
    preset = PRESETS[name]
    model = made(lambda: FAMILIES[preset.family].build(preset.config), device)
    rows = []
    for batch in (1, 2) if given.quick else (1, 8, 32, 128):
        calls = dict(calls_of(model, batch, device, () if given.quick else given.compile))
        if given.engines is not None:
            calls["engine"] = engine_call(given.engines, batch)
        if given.onnx is not None:
            calls["onnxruntime"] = onnx_call(given.onnx, batch, device)
        rows += [{"variant": name, "batch": batch, "images_per_s": rate} for name, rate in rates(calls, batch, device)]
    return {
        "command": "python " + " ".join(sys.argv),
        "device": torch.cuda.get_device_name() if device.type == "cuda" else "a CPU: figures mean nothing",
        "torch": torch.__version__,
        "model": name,
        "images": rows,
    }


def calls_of(model: nn.Module, batch: int, device: torch.device, modes: Sequence[str]) -> Iterator[tuple[str, Call]]:
    """A call a variant, over the same weights."""
    narrow = torch.randn((batch, *pixels_of(model)), device=device, dtype=torch.bfloat16)
    for name, attention in (("torch runner", attention_for(device)), ("library attention", attend_in_groups)):
        yield name, runner_call(model, attention, narrow)
    plain = with_the_same_weights(model)
    yield "the module itself", lambda: plain(narrow).float().cpu()
    torch._dynamo.reset()  # or the second batch would be compiled for any batch
    for mode in modes:
        compiled = torch.compile(plain, mode=mode, dynamic=False)
        yield f"torch.compile, {mode}", lambda compiled=compiled: compiled(narrow).float().cpu()


def pixels_of(model: nn.Module) -> tuple[int, ...]:
    """The shape of one image."""
    (graph,) = classify.graphs(model)  # type: ignore[arg-type]
    return graph.signature.input("pixels").axes[1:]


def runner_call(model: nn.Module, attention: Kernel, narrow: torch.Tensor) -> Call:
    """The torch runner, attending by a kernel."""
    (graph,) = classify.graphs(with_the_same_weights(model))  # type: ignore[arg-type]
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
    """Images a second of each variant."""
    for call in calls.values():
        call()
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            times[name].append(seconds(call, IN_A_ROW, device))
    return ((name, batch / median(taken)) for name, taken in times.items())


def page(found: dict[str, Any]) -> str:
    """The readings as Markdown, a row a variant and a column a batch."""
    batches = sorted({row["batch"] for row in found["images"]})
    rates = {(row["variant"], row["batch"]): row["images_per_s"] for row in found["images"]}
    lines = [
        f"# Images on a GPU, {time.strftime('%Y-%m-%d %H:%M', time.gmtime())} UTC",
        "",
        f"    {found['command']}",
        "",
        f"- {found['device']}, torch {found['torch']}; {found['model']}, bfloat16, images a second",
        "",
        "| variant | " + " | ".join(f"batch {batch}" for batch in batches) + " |",
        "|---" + "|---:" * len(batches) + "|",
    ]
    for name in dict.fromkeys(row["variant"] for row in found["images"]):
        lines.append(f"| {name} | " + " | ".join(f"{rates[name, batch]:.0f}" for batch in batches) + " |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    main()
