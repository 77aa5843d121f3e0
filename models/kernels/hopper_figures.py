"""What Hopper's prefill takes of sm_90, and which instructions it has, kept beside it as figures.py keeps the others'.

``python -m models.kernels.hopper_figures`` compiles it again, and writes what this Triton makes of it into
hopper_figures.json and the table of docs/reference/kernels.md. A test compiles it too, and holds it to the file.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

import triton

from models.kernel_configs.gpu_targets import gpu_target
from models.kernel_configs.heads import HeadsConfig
from models.kernels.compile import CompiledKernel, compile_kernel
from models.kernels.hopper_flash_attention import specialise
from models.kernels.ptx import count_instructions

FIGURES = Path(__file__).with_suffix(".json")
DOCUMENT = Path(__file__).parents[2] / "docs" / "reference" / "kernels.md"
TARGET = "sm_90"
_BEGIN, _END = "<!-- figures of sm_90 -->", "<!-- end of figures of sm_90 -->"
CASES = {
    f"{size}, {'causal' if causal else 'full'}, {dtype}": (size, causal, dtype)
    for size in (64, 128)
    for causal in (True, False)
    for dtype in ("float16", "bfloat16")
}
"""32 heads over 8 key heads; the first is the head size."""
INSTRUCTIONS = {
    "tma_loads": "cp.async.bulk.tensor.3d.shared",
    "tma_stores": "cp.async.bulk.tensor.3d.global",
    "wgmma": "wgmma.mma_async",
    "barriers": "mbarrier.init",
    "register_moves": "setmaxnreg",
}


@cache
def compile_case(case: str) -> CompiledKernel:
    """Compile the kernel for one kind of heads.

    Raises:
        ExportError: it does not fit the target, or spills.
    """
    size, causal, dtype = CASES[case]
    heads = HeadsConfig(heads=32, kv_heads=8, head_size=size, dtype=dtype, scale=size**-0.5)
    return compile_kernel(specialise(heads, causal, gpu_target(TARGET)), TARGET)


def measure(case: str) -> dict[str, int]:
    """What it takes.

    Returns:
        Of a block, shared bytes and threads; of a thread, registers at launch and bytes spilled; remarks of the
        assembler on lost speed; stages; instructions by kind.

    Raises:
        ExportError: it does not fit the target, or spills.
    """
    made = compile_case(case)
    return {
        "shared_bytes": made.shared_bytes,
        "threads": made.threads,
        "registers": made.report.registers,
        "spilled_bytes": made.report.spilled_bytes,
        "losses": len(made.report.losses),
        "stages": made.stages,
        **{name: count_instructions(made.ptx, instruction) for name, instruction in INSTRUCTIONS.items()},
    }


def table(figures: dict[str, dict[str, int]]) -> str:
    """Figures as Markdown: a row a case."""
    names = ("stages", *INSTRUCTIONS)
    heads = ["heads of", "shared memory", "spilled bytes", *(name.replace("_", " ") for name in names)]
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for case, row in figures.items():
        cells = [f"{row['shared_bytes'] / 1024:.1f} KiB", row["spilled_bytes"], *(row[name] for name in names)]
        lines.append(f"| {case} | " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def main() -> None:
    """Write what this Triton makes of it into hopper_figures.json, and the table of docs/reference/kernels.md."""
    recorded = json.loads(FIGURES.read_text())
    recorded["triton"][triton.__version__] = {case: measure(case) for case in CASES}
    text = json.dumps(recorded, indent=1)
    text = re.sub(r"\{[^{}]*\}", lambda figure: " ".join(figure[0].split()), text)  # a figure a line
    FIGURES.write_text(text + "\n")
    before, rest = DOCUMENT.read_text().split(_BEGIN)
    shown = table(recorded["triton"][recorded["shown"]])
    DOCUMENT.write_text(f"{before}{_BEGIN}\n{shown}\n{_END}{rest.split(_END)[1]}")


if __name__ == "__main__":
    main()
