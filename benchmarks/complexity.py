"""What a layer costs by length and width, measured beside its formula: the complexity tables of the papers.

    python benchmarks/complexity.py [--out DIR] [--repeats N]

Vaswani et al. 2017, table 1, a layer of n positions of width d: self-attention O(n² d), recurrent O(n d²),
convolutional O(k n d²), restricted self-attention O(r n d). Liu et al. 2021, equations 1 and 2, a map of h × w places:
Ω(MSA) = 4 h w C² + 2 (h w)² C, Ω(W-MSA) = 4 h w C² + 2 M² h w C.

Multiply-adds are counted in the operators that ran, by torch's ``FlopCounterMode``. Seconds are processor time of one
thread, the least of several runs; ``slope`` is the exponent of the size that is doubled, fitted to the four largest.
"""

from __future__ import annotations

import argparse
import datetime
import math
import platform
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from attendant.progress import progress  # noqa: E402
from models.layers.attend import attention_weights  # noqa: E402
from tests.oracles.restricted_attention import restricted_attend  # noqa: E402

LENGTHS = tuple(2**power for power in range(5, 12))
WIDTHS = tuple(2**power for power in range(5, 10))
FIXED_LENGTH, FIXED_WIDTH = 512, 128
KERNEL, RADIUS = 3, 4
MAP_SIDES, MAP_WIDTH, HEADS, WINDOW = (7, 14, 28, 56), 96, 3, 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one size cost.

    Attributes:
        size: the number that is doubled.
        macs: multiply-adds that ran.
        formula: multiply-adds by the formula.
        seconds: processor time.
    """

    size: int
    macs: int
    formula: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """The costs of one layer along one axis."""

    layer: str
    axis: str
    costs: list[Cost]

    def slope(self, value: Callable[[Cost], float]) -> float:
        """The exponent of a cost in the size, over the four largest sizes."""
        last = self.costs[-4:]
        first, final = last[0], last[-1]
        return math.log(value(final) / value(first)) / math.log(final.size / first.size)


def self_attention(length: int, width: int) -> tuple[Callable[[], Tensor], int]:
    """Scores and mixture, one head, without projections."""
    q, k, v = torch.randn(3, 1, 1, length, width)
    return lambda: attention_weights(q, k) @ v, 2 * length**2 * width


def restricted(length: int, width: int) -> tuple[Callable[[], Tensor], int]:
    """The same among 2r + 1 neighbours."""
    q, k, v = torch.randn(3, 1, 1, length, width)
    return lambda: restricted_attend(q, k, v, RADIUS), 2 * (2 * RADIUS + 1) * length * width


def recurrent(length: int, width: int) -> tuple[Callable[[], Tensor], int]:
    """h_t = tanh(W x_t + U h_{t−1})."""
    cell, inputs = nn.RNNCell(width, width), torch.randn(length, 1, width)

    def run() -> Tensor:
        hidden = torch.zeros(1, width)
        for one in inputs:
            hidden = cell(one, hidden)
        return hidden

    return run, 2 * length * width**2


def convolutional(length: int, width: int) -> tuple[Callable[[], Tensor], int]:
    """A kernel of k positions."""
    layer, inputs = nn.Conv1d(width, width, KERNEL, padding="same"), torch.randn(1, width, length)
    return lambda: layer(inputs), KERNEL * length * width**2


def whole_map(side: int) -> tuple[Callable[[], Tensor], int]:
    """MSA with its four projections."""
    return _map_attention(side, side)


def windowed_map(side: int) -> tuple[Callable[[], Tensor], int]:
    """W-MSA with its four projections, the windows in the batch."""
    return _map_attention(side, WINDOW)


def _map_attention(side: int, window: int) -> tuple[Callable[[], Tensor], int]:
    projections = nn.ModuleList(nn.Linear(MAP_WIDTH, MAP_WIDTH) for _ in range(4))
    windows, places = (side // window) ** 2, window**2
    inputs = torch.randn(windows, places, MAP_WIDTH)

    def run() -> Tensor:
        q, k, v = (
            one(inputs).view(windows, places, HEADS, MAP_WIDTH // HEADS).transpose(1, 2) for one in projections[:3]
        )
        mixed: Tensor = projections[3]((attention_weights(q, k) @ v).transpose(1, 2).flatten(2))
        return mixed

    return run, 4 * side**2 * MAP_WIDTH**2 + 2 * places * side**2 * MAP_WIDTH


def measure(run: Callable[[], Tensor], formula: int, size: int, repeats: int) -> Cost:
    """Count one run, and time several."""
    counter = FlopCounterMode(display=False)
    with counter:
        run()
    seconds = []
    for _ in range(repeats):
        began = time.process_time()
        run()
        seconds.append(time.process_time() - began)
    return Cost(size=size, macs=counter.get_total_flops() // 2, formula=formula, seconds=min(seconds))


def curves(repeats: int) -> list[Curve]:
    """Every layer by length and by width, and both kinds of attention over maps by the number of places."""
    layers = {
        "self-attention": self_attention,
        "restricted self-attention": restricted,
        "recurrent": recurrent,
        "convolutional": convolutional,
    }
    made = []
    with progress("layers", 2 * len(layers) + 2) as advance:
        for name, layer in layers.items():
            by_length = [measure(*layer(length, FIXED_WIDTH), length, repeats) for length in LENGTHS]
            by_width = [measure(*layer(FIXED_LENGTH, width), width, repeats) for width in WIDTHS]
            made += [Curve(layer=name, axis="n", costs=by_length), Curve(layer=name, axis="d", costs=by_width)]
            advance(name)
            advance(name)
        for name, over in {"MSA": whole_map, "W-MSA": windowed_map}.items():
            costs = [measure(*over(side), side**2, repeats) for side in MAP_SIDES]
            made.append(Curve(layer=name, axis="h w", costs=costs))
            advance(name)
    return made


def report(made: Sequence[Curve]) -> str:
    """A Markdown table: slopes, and the largest size's cost."""
    rows = [
        "| layer | size | multiply-adds / formula | slope of multiply-adds | slope of seconds | at | ms |",
        "|---|---|---|---|---|---|---|",
    ]
    for curve in made:
        last = curve.costs[-1]
        ratios = [cost.macs / cost.formula for cost in curve.costs]
        rows.append(
            f"| {curve.layer} | {curve.axis} | {min(ratios):.3f} to {max(ratios):.3f} "
            f"| {curve.slope(lambda cost: cost.macs):.2f} | {curve.slope(lambda cost: cost.seconds):.2f} "
            f"| {curve.axis} = {last.size} | {last.seconds * 1e3:.2f} |"
        )
    return "\n".join(rows) + "\n"


def plot(made: Sequence[Curve], path: Path) -> None:
    """Seconds as points, the formula as a line through the largest point, one panel an axis."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 4), layout="constrained")
    panels = dict(zip(("n", "d", "h w"), figure.subplots(1, 3), strict=True))
    titles = {"n": f"length n (d = {FIXED_WIDTH})", "d": f"width d (n = {FIXED_LENGTH})", "h w": "places h·w of a map"}
    for curve in made:
        axis, sizes = panels[curve.axis], [cost.size for cost in curve.costs]
        (points,) = axis.loglog(sizes, [cost.seconds * 1e3 for cost in curve.costs], "o", label=curve.layer)
        last = curve.costs[-1]
        line = [cost.formula / last.formula * last.seconds * 1e3 for cost in curve.costs]
        axis.loglog(sizes, line, "-", color=points.get_color(), linewidth=1)
    for name, axis in panels.items():
        axis.set_xlabel(titles[name])
        sizes = [cost.size for cost in next(curve for curve in made if curve.axis == name).costs]
        axis.set_xticks(sizes, [str(size) for size in sizes], fontsize=8)
        axis.minorticks_off()
        axis.set_ylabel("ms of one thread")
        axis.legend(fontsize=8)
        axis.grid(which="major", alpha=0.3)
    figure.savefig(path, dpi=150)


def main() -> None:
    """Measure, and write a table and a plot."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results", help="folder of table and plot")
    parser.add_argument("--repeats", type=int, default=20, help="runs of each size; the least time counts")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    with torch.no_grad():
        made = curves(asked.repeats)
    asked.out.mkdir(parents=True, exist_ok=True)
    stem = f"{datetime.date.today()}-complexity"
    table = report(made)
    head = (
        f"# Complexity of layers\n\n`python benchmarks/complexity.py`, torch {torch.__version__}, "
        f"{platform.machine()}, {torch.backends.cpu.get_cpu_capability()}, one thread, float32, n or d doubled.\n\n"
    )
    (asked.out / f"{stem}.md").write_text(f"{head}{table}\n![seconds and formulas]({stem}.png)\n", encoding="utf-8")
    plot(made, asked.out / f"{stem}.png")
    sys.stdout.write(table)


if __name__ == "__main__":
    main()
