"""What lowering a decoder to ONNX Runtime's own operators gains: the standard graph and the lowered, side by side.

    python benchmarks/lowering.py ARTEFACT ... [--rounds N] [--threads N] [--out FILE]

Every question is asked of both graphs in turn, on caches of their own: a step of one token, and a prompt. The figure is
the processor time of one run, the smallest of all rounds, in milliseconds; the logits are compared as well. The lowered
graph is the one that is served, wherever there is one.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
import onnxruntime

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from attendant.manifest import Manifest  # noqa: E402
from attendant.progress import progress  # noqa: E402
from benchmarks.peers.hardware import hardware  # noqa: E402
from export.graph.sample_inputs import sample_inputs  # noqa: E402
from serving.runtime.base import Array, Runner  # noqa: E402
from serving.runtime.cached_decoder import CachedDecoder  # noqa: E402
from serving.runtime.ort.row_by_row import RowByRow  # noqa: E402
from serving.runtime.ort.runner import OrtRunner  # noqa: E402

FIRST_IDS = 40  # random tokens are drawn from these: every vocabulary has them
PROMPT, BEHIND = 128, 900


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What both graphs are asked.

    Attributes:
        rows: B.
        behind: how many positions are cached before.
        tokens: T, new ones.
    """

    rows: int
    behind: int
    tokens: int

    def __str__(self) -> str:
        what = "a step" if self.tokens == 1 else f"a prompt of {self.tokens}"
        return f"{what}, batch {self.rows}" + (f", behind {self.behind}" if self.behind else "")


def questions(capacity: int) -> Iterator[Question]:
    """Steps behind short and long caches, and prompts, as far as the cache holds them."""
    for rows in (1, 8):
        for behind in (min(PROMPT, capacity // 2), BEHIND):
            if behind < capacity:
                yield Question(rows=rows, behind=behind, tokens=1)
        yield Question(rows=rows, behind=0, tokens=min(PROMPT, capacity // 2))


def asked(manifest: Manifest, runner: Runner, question: Question) -> Callable[[], Array]:
    """A call that runs the question once, on caches that are allocated before; it returns the last logits."""
    rng = np.random.default_rng(0)
    sizes = {name: axis.usual for name, axis in manifest.graph("decoder").axes.items()} | {"batch": question.rows}
    samples = sample_inputs(manifest.graph("decoder"), {**sizes, "steps": 1, "attended": 1, "scored": 1})
    own = {"token_ids", "start", "self_mask", "scored", *manifest.graph("decoder").aliases.values()}
    source = {name: tensor.numpy() for name, tensor in samples.items() if name not in own}
    decoder = CachedDecoder(runner, question.rows, source)
    ids = rng.integers(3, FIRST_IDS, (question.rows, question.tokens))
    start, last = np.full(question.rows, question.behind), np.full((question.rows, 1), question.tokens - 1)
    return lambda: decoder.step(ids, start, last)["logits"]


def measured(calls: dict[str, Callable[[], Array]], rounds: int) -> tuple[dict[str, float], float]:
    """Milliseconds of each graph, and the largest difference of their logits relative to the largest logit."""
    logits = {name: call() for name, call in calls.items()}
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            seconds[name].append(median(_processor_seconds(call) for _ in range(3)))
    standard, lowered = logits.values()
    return {name: min(all_of) * 1e3 for name, all_of in seconds.items()}, float(
        np.abs(standard - lowered).max() / np.abs(standard).max()
    )


def _processor_seconds(call: Callable[[], Array]) -> float:
    began = time.process_time()
    call()
    return time.process_time() - began


def rows_of(folder: Path, rounds: int, threads: int) -> Iterator[str]:
    """The table's rows of one artefact."""
    manifest = Manifest.read(folder)
    signature = manifest.graph("decoder")
    files = {"standard": "decoder.onnx", "lowered": manifest.file_for("decoder", "ort-cpu")}
    runners = {name: RowByRow(OrtRunner(folder / file, signature, threads)) for name, file in files.items()}
    capacity = next(iter(CachedDecoder(runners["standard"], 1).caches.values())).numpy().shape[2]
    every = list(questions(capacity))
    with progress(manifest.name, len(every)) as advance:
        for question in every:
            calls = {name: asked(manifest, runner, question) for name, runner in runners.items()}
            ms, difference = measured(calls, rounds)
            gain = ms["standard"] / ms["lowered"]
            yield (
                f"| {manifest.name} | {question} | {ms['standard']:.3f} | {ms['lowered']:.3f} | {gain:.2f} "
                f"| {difference:.0e} |"
            )
            advance(str(question))


def page(words: argparse.Namespace) -> str:
    """The whole result as Markdown."""
    machine = [
        f"- {name}: {value}"
        for name, value in {**hardware(), "threads": words.threads, "onnxruntime": onnxruntime.__version__}.items()
    ]
    head = "| artefact | question | standard ms | lowered ms | standard / lowered | difference of logits |"
    rows = [row for folder in words.artefacts for row in rows_of(folder, words.rounds, words.threads)]
    began = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    return "\n".join([f"# Lowering, {began}", "", *machine, "", head, "|---|---|---:|---:|---:|---:|", *rows, ""])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("artefacts", nargs="+", type=Path, metavar="ARTEFACT", help="a folder of `export onnx`")
    parser.add_argument("--rounds", type=int, default=5, help="how often the graphs take turns")
    parser.add_argument("--threads", type=int, default=1, help="for the work inside one operator")
    parser.add_argument("--out", type=Path, help="a file for the table")
    given = parser.parse_args()
    text = page(given)
    if given.out:
        given.out.write_text(text, encoding="utf-8")
    print(text)  # noqa: T201
