"""The quickstart's stages in their order. Each says on standard error what it does before it imports what it needs."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from attendant.errors import ParityError

if TYPE_CHECKING:
    from commands.quickstart.outcome import Outcome

MODELS = ("digits-vit", "digits-swin", "digits-captioner", "dates-transformer", "dates-gru", "stdlib-lm")
_EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "three.png"
_STAGES = 5


def run_stages(build: Path, repository: Path, texts: int) -> int:
    """Export and serve one model, then export, prove, serve and ask all of them.

    Args:
        build: where the exported artefacts go.
        repository: the Triton model repository to write.
        texts: how many held-out dates, and how many pairs of digits, to ask.
    """
    began = time.monotonic()
    first, *others = MODELS
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # who reads a pipe sees answers as they come
    console = Console(highlight=False)
    console.width = max(console.width, 120)

    _announce(1, f"export {first}, a Vision Transformer, from PyTorch to ONNX")
    from export.artefact.stage import export_onnx

    export_onnx(first, build / first, explain=True)

    _announce(2, f"serve {first} by Triton, and ask it what {_EXAMPLE.name} shows")
    from commands.quickstart.first_answer import print_first_answer

    print_first_answer(console, build / first, repository, _EXAMPLE)
    console.print(f"the first answer came after {time.monotonic() - began:.0f} s")

    _announce(3, f"export the other {len(others)} models, and compare all {len(MODELS)} with PyTorch in float64")
    from commands.quickstart.proof import export_and_prove
    from commands.quickstart.showcase import showcases

    models = showcases(texts)
    export_and_prove([build / model.name for model in models])

    _announce(4, f"write {repository}, and serve all {len(MODELS)} models by Triton")
    from attendant.progress import progress
    from commands.quickstart.report import print_table
    from commands.quickstart.server import serve
    from models.checkpoints.resolve import checkpoint_named
    from models.explanation import ExplainOptions, explain

    with serve([build / name for name in MODELS], repository) as endpoints:
        console.print(f"Triton answers: gRPC {endpoints.grpc}, metrics http://{endpoints.metrics}/metrics")
        _announce(5, "ask every model the same questions by PyTorch, by ONNX Runtime in this process, and by Triton")
        outcomes = []
        with progress("ask", len(models)) as advance:
            for model in models:
                outcomes.append(model.ask(build / model.name, endpoints.grpc))
                advance(model.name)
    for model, outcome in zip(models, outcomes, strict=True):
        model.show(console, outcome)
    print_table(console, outcomes)
    attention = build / "attention.png"
    explain(checkpoint_named(first), ExplainOptions(subject=str(_EXAMPLE), out=attention))
    console.print(f"graphs, manifests, parity.json   {', '.join(str(build / name) for name in MODELS)}")
    console.print(f"Triton model repository          {repository}")
    console.print(f"what {first} attends to       {attention}")
    console.print(f"done in {time.monotonic() - began:.0f} s, and Triton is stopped")
    console.print("`make up` leaves Triton, the gateway and its page running, and prints the address")
    _require_equal(outcomes)
    return 0


def _announce(number: int, title: str) -> None:
    sys.stderr.write(f"{number}/{_STAGES} {title}\n")


def _require_equal(outcomes: Sequence[Outcome]) -> None:
    for outcome in outcomes:
        if not outcome.equal:
            raise ParityError(
                f"the same answers from {outcome.name} in PyTorch, in process and served",
                "different ones",
                "run `attendant verify` on its folder",
            )
