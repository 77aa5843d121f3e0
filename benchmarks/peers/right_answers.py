"""How often ours is right in the very precisions and runtimes that are timed: of shipped checkpoints, on held-out data.

The timed models have random weights, which have no right answers.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from attendant.manifest import Manifest
from benchmarks.peers.processes import build_product
from benchmarks.peers.registry import ours
from benchmarks.peers.shapes import Kind
from export.parity.check import checkpoint_of
from export.quality.answers import answers_of
from export.quality.held_out import held_out_questions
from serving.runtime.create_runners import create_runners

SHIPPED: dict[Kind, tuple[str, ...]] = {
    "decoder": ("stdlib-lm",),
    "translator": ("dates-transformer",),
    "encoder": (),  # none is shipped
    "vision": ("digits-vit", "digits-swin"),
}
HEADS = ["checkpoint", "ours", "right answers", "asked"]


def right_answers(
    kind: Kind, artefacts: list[str], runtimes: list[str], threads: int, place: Path
) -> Iterator[list[str]]:
    """A row a checkpoint, precision and runtime: how many of the answers are right.

    Args:
        kind: of what was timed.
        artefacts: as :func:`benchmarks.peers.registry.ours` takes them.
        runtimes: that execute them.
        threads: of each.
        place: where artefacts are kept.
    """
    for name in SHIPPED[kind]:
        for artefact in artefacts:
            words = tuple(artefact.split())
            for runtime in runtimes:
                peer = ours(kind, words, runtime)
                make = ("{python}", "-m", "attendant", "export", "onnx", name, "--out", "{out}", *words)
                folder = build_product(replace(peer, make=make), place / name)
                manifest = Manifest.read(folder)
                questions = held_out_questions(checkpoint_of(manifest, None), manifest.graphs[0], full=False)
                graphs = create_runners(folder, manifest, threads, peer.options["runtime"])
                accuracy = answers_of(graphs, questions, at_once=True).accuracy
                assert accuracy is not None  # a held-out question has a right answer
                yield [name, peer.name, f"{100 * accuracy.share:.2f} %", f"{accuracy.total:,}"]
