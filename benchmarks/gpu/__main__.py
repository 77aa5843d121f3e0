"""Every benchmark of a GPU, one after another, each in a process of its own.

    python -m benchmarks.gpu [--quick] [--out FOLDER] [--build FOLDER] [--only NAME …]

    goals       the fractions that our kernels are to reach of FlashAttention-3 and of the bandwidth
    attention   our kernels beside scaled_dot_product_attention's back ends and FlexAttention, copy and matmul roofs
    export …    the 1.1 B Llama's shape and ViT-B/16 as ONNX in float16, where ONNX Runtime has the CUDA provider
    decoding    steps of that Llama on the torch runner, and on ONNX Runtime where it was exported
    prefill     prompts of that Llama, beside torch.compile at 512 tokens
    vit, swin, swin-v2    images a second beside torch.compile, ViT on ONNX Runtime where it was exported

One that fails is told at the end, and the others run. ``--quick`` is a trial of each on tiny sizes, on any machine.
"""

import argparse
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness.machine import ROOT
from benchmarks.harness.report import RESULTS

LLAMA, VIT = "tinyllama-1.1b", "vit-b-16"


@dataclass(frozen=True, slots=True)
class Step:
    """One process: what it measures, and the words behind ``python``."""

    name: str
    words: tuple[str, ...]


def steps(quick: bool, out: Path, build: Path, cuda_provider: bool) -> list[Step]:

    def short(path: Path) -> str:
        """Pages show the command: it is run from the root."""
        return str(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path)

    flags = ("--out", short(out), *(["--quick"] if quick else []))
    exported = (LLAMA, VIT) if cuda_provider and not quick else ()
    onnx = {name: ("--onnx", short(build / name)) for name in exported}
    export = ("-m", "attendant", "export", "onnx")
    vision = ("-m", "benchmarks.gpu.vision", *flags)
    return [
        Step("goals", ("-m", "benchmarks.gpu.goals", *flags)),
        Step("attention", ("-m", "benchmarks.gpu.attention", *flags)),
        *(
            Step(f"export {name}", (*export, name, "--precision", "fp16", "--out", short(build / name)))
            for name in exported
        ),
        Step("decoding", ("-m", "benchmarks.gpu.decoding", *flags, *onnx.get(LLAMA, ()))),
        Step("prefill", ("-m", "benchmarks.gpu.prefill", *flags, *([] if quick else ["--compile", "512"]))),
        Step("vit", (*vision, *onnx.get(VIT, ()))),
        Step("swin", (*vision, "--preset", "swin-t", "--compile", "default")),
        Step("swin-v2", (*vision, "--preset", "swin-v2-t", "--compile", "default")),
    ]


def run(step: Step) -> bool:
    print(f"== {step.name}: python {' '.join(step.words)}", flush=True)  # noqa: T201
    began = time.monotonic()
    status = subprocess.run([sys.executable, *step.words], cwd=ROOT, check=False).returncode
    print(f"== {step.name}: {time.monotonic() - began:.0f} s, exit status {status}", flush=True)  # noqa: T201
    return status == 0


def has_cuda_provider() -> bool:
    try:
        import onnxruntime
    except ImportError:
        return False
    return "CUDAExecutionProvider" in onnxruntime.get_available_providers()


def main() -> int:
    """Run all steps, or those that are named; 1 if one failed."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a trial on tiny sizes, on any machine")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "benchmarks" / "gpu", help="of the ONNX graphs")
    parser.add_argument("--only", nargs="*", default=[], help="names of steps")
    args = parser.parse_args()
    planned = steps(args.quick, args.out.resolve(), args.build.resolve(), has_cuda_provider())
    unknown = set(args.only) - {step.name for step in planned}
    if unknown:
        parser.error(f"expected some of {', '.join(step.name for step in planned)}; found {', '.join(sorted(unknown))}")
    failed = [step.name for step in planned if step.name in (args.only or [step.name]) and not run(step)]
    print(f"failed: {', '.join(failed)}" if failed else "every benchmark ran")  # noqa: T201
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
