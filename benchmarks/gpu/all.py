"""Every benchmark of a GPU, one after another, each in a process of its own.

    python benchmarks/gpu/all.py [--quick] [--out FOLDER] [--build FOLDER] [--only NAME …]

    attention   our kernels beside scaled_dot_product_attention's back ends and FlexAttention, copy and matmul roofs
    export …    the 1.1 B Llama's shape and ViT-B/16 as ONNX in float16, where ONNX Runtime has the CUDA provider
    decoding    steps of that Llama on the torch runner, and on ONNX Runtime where it was exported
    vit, swin, swin-v2    images a second beside torch.compile, ViT on ONNX Runtime where it was exported

One that fails is told at the end, and the others run. ``--quick`` is a trial of each on tiny sizes, on any machine.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
LLAMA, VIT = "tinyllama-1.1b", "vit-b-16"


@dataclass(frozen=True, slots=True)
class Step:
    """One process.

    Attributes:
        name: of what it measures.
        words: behind ``python``.
    """

    name: str
    words: tuple[str, ...]


def steps(quick: bool, out: Path, build: Path, cuda_provider: bool) -> list[Step]:
    """What is run.

    Args:
        quick: tiny sizes.
        out: folder of the results.
        build: folder of the ONNX graphs.
        cuda_provider: whether ONNX Runtime can use the GPU.
    """
    said = ("--out", _short(out), *(["--quick"] if quick else []))
    exported = (LLAMA, VIT) if cuda_provider and not quick else ()
    onnx = {name: ("--onnx", _short(build / name)) for name in exported}
    export = ("-m", "attendant", "export", "onnx")
    vision = _short(HERE / "vision.py")
    return [
        Step("attention", (_short(HERE / "attention.py"), *said)),
        *(
            Step(f"export {name}", (*export, name, "--precision", "fp16", "--out", _short(build / name)))
            for name in exported
        ),
        Step("decoding", (_short(HERE / "decoding.py"), *said, *onnx.get(LLAMA, ()))),
        Step("vit", (vision, *said, *onnx.get(VIT, ()))),
        Step("swin", (vision, *said, "--preset", "swin-t", "--compile", "default")),
        Step("swin-v2", (vision, *said, "--preset", "swin-v2-t", "--compile", "default")),
    ]


def _short(path: Path) -> str:
    # Pages show the command: it is run from the root.
    return str(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path)


def ran(step: Step) -> bool:
    """Run one step from the repository's root; say how it ended."""
    print(f"== {step.name}: python {' '.join(step.words)}", flush=True)  # noqa: T201
    began = time.monotonic()
    status = subprocess.run([sys.executable, *step.words], cwd=ROOT, check=False).returncode
    print(f"== {step.name}: {time.monotonic() - began:.0f} s, exit status {status}", flush=True)  # noqa: T201
    return status == 0


def has_cuda_provider() -> bool:
    """Whether there is an ONNX Runtime with the CUDA provider."""
    try:
        import onnxruntime
    except ImportError:
        return False
    return "CUDAExecutionProvider" in onnxruntime.get_available_providers()


def main() -> int:
    """Run all steps, or those that are named; 1 if one failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a trial on tiny sizes, on any machine")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results", help="folder of the results")
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "benchmarks" / "gpu", help="of the ONNX graphs")
    parser.add_argument("--only", nargs="*", default=[], help="names of steps")
    given = parser.parse_args()
    planned = steps(given.quick, given.out.resolve(), given.build.resolve(), has_cuda_provider())
    unknown = set(given.only) - {step.name for step in planned}
    if unknown:
        parser.error(f"expected some of {', '.join(step.name for step in planned)}; found {', '.join(sorted(unknown))}")
    failed = [step.name for step in planned if step.name in (given.only or [step.name]) and not ran(step)]
    print(f"failed: {', '.join(failed)}" if failed else "every benchmark ran")  # noqa: T201
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
