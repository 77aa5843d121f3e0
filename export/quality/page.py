"""The page docs/reference/precision.md: budgets, and what each precision costs each shipped checkpoint, as measured."""

import datetime
import platform
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from itertools import groupby
from pathlib import Path

import torch

from attendant.errors import OutputError
from export.precision.precisions import PRECISIONS
from export.quality.budgets import BUDGETS
from export.quality.comparison import PrecisionCost
from export.quality.comparison_report import HEAD, rows_of

PACKAGES = ("torch", "onnx", "onnxruntime", "openvino", "numpy")
_INTRODUCTION = """\
# Precision: what each one costs

    {command}

wrote this page. It exports every shipped checkpoint in every precision and puts it beside the PyTorch model in float64,
over held-out data: {questions}. `attendant verify DIR` measures the same of one artefact, writes it into
`parity.json`, each step of a decode too, and ends with status 1 where a budget does not hold.

- **graph**: *served* is what a server executes: lowered for ONNX Runtime, or on OpenVINO, where that is faster;
  *standard* is the graph of standard operators on ONNX Runtime, where that is something else; *rounded* is one of a
  type that it lacks on a CPU (bf16), run in fp32 and rounded wherever the type rounds; *tensorrt* is what engines are
  built from, run by ONNX Runtime, where its numbers are others: of int8 and int4, weights alone in integers, the rest
  in fp16.
- **files**: of the graphs, weights included.
- **drift**: the mean |z′ − z| of a step's logits in units of their spread σ (the standard deviation over the vocabulary
  or the classes), at the worst step. A decoder is fed the right tokens (teacher forcing), its prompt at once and then
  one by one.
- **KL** of the reference's probabilities and the artefact's, in nats a token; **top-1**: how often the first choice is
  the same.
- **greedy prefix**: tokens of greedy answers before the first other one, of all tokens of the reference's.
- **right answers**: of the artefact, and in brackets of the float64 model.

Right answers are counted over all examples, or as many as each table says; values are compared over all images, 64
dates or pairs, and 16 texts of 256 tokens.

These are small models. What another loses is measured by `attendant compare MODEL --out DIR`.
"""
_BUDGETS = """\
## Budgets

Drift is held to its budget always; KL, top-1 and right answers where the data is real. With random weights or random
inputs every token is nearly as probable as the next, and which is first means nothing: `verify` shows those figures and
holds only the drift. A checkpoint of one's own is asked random inputs.
"""


def write_page(compared: Sequence[PrecisionCost], full: bool, path: Path) -> None:
    """Write the page.

    Args:
        compared: what it shows.
        full: whether every held-out example was asked.
        path: the page.

    Raises:
        OutputError: the file cannot be written.
    """
    asked = dict.fromkeys(quality.questions for one in compared for quality in one.qualities)
    command = f"attendant compare{' --full' * full} --out DIR --page docs/reference/precision.md"
    models = [list(group) for _, group in groupby(compared, lambda one: one.model)]
    tools = ", ".join(f"{package} {version(package)}" for package in PACKAGES)
    cpu = f"{platform.machine()}, {torch.backends.cpu.get_cpu_capability()}"
    parts = (
        _INTRODUCTION.format(command=command, questions=", ".join(asked)),
        f"Measured {datetime.date.today().isoformat()} with {tools}, Python {platform.python_version()}, {cpu}.\n",
        _BUDGETS,
        _budgets(dict.fromkeys(one.precision for one in compared)),
        *(
            f"## {group[0].model}\n\n{_metric(group)}{_table(HEAD, [row for one in group for row in rows_of(one)])}"
            for group in models
        ),
    )
    try:
        path.write_text("\n".join(parts), encoding="utf-8")
    except OSError as error:
        raise OutputError(f"a place to write at {path}", str(error), "make the folder writable") from error


def _budgets(precisions: Iterable[str]) -> str:
    rows = []
    for name in precisions:
        budget = BUDGETS[name]
        limits = f"{budget.drift:g} σ", f"{budget.kl:g}", f"{100 * budget.top1:g} %", f"{budget.loss:g} points"
        rows.append((f"`{name}`", PRECISIONS[name].summary, *limits, budget.why))
    return _table(("precision", "what it is", "drift ≤", "KL ≤", "top-1 ≥", "loss of right answers ≤", "why"), rows)


def _metric(group: Iterable[PrecisionCost]) -> str:
    accuracies = [quality.accuracy for one in group for quality in one.qualities if quality.accuracy]
    return f"Right answers: {accuracies[0].metric}, {accuracies[0].total:,} asked.\n\n" if accuracies else ""


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = (f"| {' | '.join(cell.replace('|', '¦') for cell in row)} |" for row in (head, ("---",) * len(head), *rows))
    return "\n".join(lines) + "\n"
