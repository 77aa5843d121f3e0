"""What each kernel takes of each GPU: memory, registers and loads ahead, of one usual size, kept beside the kernels.

``python -m models.kernels.figures`` compiles them all again, and writes what this Triton makes of them into
figures.json and the table of docs/reference/kernels.md. A test compiles them too, and holds them to the file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import triton

from models.kernel_configs.gpu_targets import GPU_TARGETS, WITHOUT_LEAVE_BYTES, GpuTarget
from models.kernel_configs.heads import HeadsConfig
from models.kernel_configs.specialisation import Specialisation
from models.kernel_configs.window_tiles import WindowConfig
from models.kernels import (
    additive_attention,
    combine_splits,
    decode_append_attention,
    decode_attention,
    flash_attention,
    gated_product,
    rotate_append,
    skinny_product,
    window_attention,
)
from models.kernels.compile import CompiledKernel, compile_kernel, compile_to_fit

FIGURES = Path(__file__).with_suffix(".json")
DOCUMENT = Path(__file__).parents[2] / "docs" / "reference" / "kernels.md"
_BEGIN, _END = "<!-- figures -->", "<!-- end of figures -->"
_HEADS = HeadsConfig(heads=32, kv_heads=8, head_size=128, dtype="float16", scale=128**-0.5)
_SMALL = HeadsConfig(heads=32, kv_heads=8, head_size=64, dtype="float16", scale=64**-0.5)
_LARGE = HeadsConfig(heads=8, kv_heads=2, head_size=256, dtype="float16", scale=256**-0.5)
_SWIN = WindowConfig.of(32, 4, 7, 3, False, None, "float16")
_SWIN_V2 = WindowConfig.of(32, 4, 16, 8, True, None, "float16")

USUAL: dict[str, Callable[[GpuTarget], Specialisation]] = {
    "flash_attention": lambda target: flash_attention.specialise(_HEADS, True, target),
    "decode_attention": lambda target: decode_attention.specialise(_HEADS, True, 4, 16, target),
    "decode_append_attention": lambda target: decode_append_attention.specialise(_HEADS, "half", 4, 16, target),
    "rotate_append": lambda target: rotate_append.specialise(_HEADS, "half", together=True),
    "gated_product": lambda target: gated_product.specialise("float16"),
    "skinny_product": lambda target: skinny_product.specialise(2048, 1, "float16", target, ("rms", 1e-5), gated=True),
    "combine_splits": lambda target: combine_splits.specialise(128, 16, "float16"),
    "window_attention": lambda target: window_attention.specialise(_SWIN, target),
    "window_attention, cosine": lambda target: window_attention.specialise(_SWIN_V2, target),
    "additive_attention": lambda target: additive_attention.specialise(512, 1024, 64, "float16"),
}
"""Kernel → its usual size: 32 heads of 128 over 8 in float16, one position; windows of 7 and 16; a source of 64."""
WITHOUT_LEAVE: dict[str, Callable[[GpuTarget], Specialisation]] = {
    "flash_attention, 64, 48 KiB": lambda target: flash_attention.specialise(_SMALL, True, target),
    "flash_attention, 128, 48 KiB": lambda target: flash_attention.specialise(_HEADS, True, target),
    "flash_attention, 256, 48 KiB": lambda target: flash_attention.specialise(_LARGE, True, target),
    "decode_attention, 256, 48 KiB": lambda target: decode_attention.specialise(_LARGE, True, 32, 16, target),
}
"""As plugins have them, where that is tight; heads of 256 are 8 over 2, and eight positions where it decodes."""
PIPELINED = tuple(name for name in (*USUAL, *WITHOUT_LEAVE) if name.startswith(("flash_attention", "decode")))
"""Kernels whose loop over keys must have the next tile's loads in flight, on every target."""


@cache
def compile_usual(kernel: str, target: str) -> CompiledKernel:
    """Compile one kernel for one target.

    Raises:
        ExportError: it does not fit the target, or spills.
    """
    if kernel in USUAL:
        return compile_kernel(USUAL[kernel](GPU_TARGETS[target]), target)
    narrow = replace(GPU_TARGETS[target], shared_bytes=WITHOUT_LEAVE_BYTES)
    return compile_to_fit(WITHOUT_LEAVE[kernel](narrow), target, WITHOUT_LEAVE_BYTES)


def measure(kernel: str, target: str) -> dict[str, int]:
    """What one kernel takes of one target.

    Returns:
        Of a block, shared bytes and threads; of a thread, registers and bytes spilled; stages; asynchronous copies
        in the code.

    Raises:
        ExportError: it does not fit the target, or spills.
    """
    made = compile_usual(kernel, target)
    return {
        "shared_bytes": made.shared_bytes,
        "threads": made.threads,
        "registers": made.report.registers,
        "spilled_bytes": made.report.spilled_bytes,
        "stages": made.stages,
        "async_copies": made.async_copies,
    }


def table(figures: dict[str, dict[str, dict[str, int]]]) -> str:
    """Figures as Markdown: a row a kernel, a column a target; the last number is that of asynchronous copies."""
    lines = ["| kernel | " + " | ".join(GPU_TARGETS) + " |", "|---" * (len(GPU_TARGETS) + 1) + "|"]
    for kernel, row in figures.items():
        lines.append(f"| {kernel} | " + " | ".join(_cell(row[name]) for name in GPU_TARGETS) + " |")
    return "\n".join(lines)


def _cell(figure: dict[str, int]) -> str:
    return f"{figure['shared_bytes'] / 1024:.1f} KiB, {figure['registers']}, {figure['async_copies']}"


def main() -> None:
    """Write what this Triton makes of every kernel into figures.json, and the table of docs/reference/kernels.md."""
    recorded = json.loads(FIGURES.read_text())
    kernels = (*USUAL, *WITHOUT_LEAVE)
    recorded["triton"][triton.__version__] = {
        kernel: {name: measure(kernel, name) for name in GPU_TARGETS} for kernel in kernels
    }
    text = json.dumps(recorded, indent=1)
    text = re.sub(r"\{[^{}]*\}", lambda figure: " ".join(figure[0].split()), text)  # a figure a line
    FIGURES.write_text(text + "\n")
    before, rest = DOCUMENT.read_text().split(_BEGIN)
    shown = table(recorded["triton"][recorded["shown"]])
    DOCUMENT.write_text(f"{before}{_BEGIN}\n{shown}\n{_END}{rest.split(_END)[1]}")


if __name__ == "__main__":
    main()
