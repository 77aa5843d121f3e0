"""From the shipped checkpoints to answers over gRPC: export, parity, repository, Triton, questions, one table."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from export.ladder import climb
from export.parity import require_parity, rungs_of, write_report
from export.report import print_rungs
from export.stage import export_onnx
from models.checkpoints.resolve import checkpoint_named
from models.cli import run
from models.errors import ParityError
from models.explain.command import Wish, explain
from quickstart.outcome import Outcome
from quickstart.report import print_table
from quickstart.showcase import Captions, Dates, Digits, Prompts, Showcase
from serving.canary import canary_check
from serving.repository.layout import write_repository
from serving.triton_server.ports import free_ports
from serving.triton_server.process import TritonServer
from serving.triton_server.settings import ServerSettings

START_TIMEOUT_S = 60.0
EXAMPLE_IMAGE = Path(__file__).parent.parent / "docs" / "examples" / "three.png"


def quickstart(build: Path = Path("build"), repository: Path = Path("model_repository"), texts: int = 500) -> int:
    """Take the shipped checkpoints down the whole road, and compare every answer on the way.

    Args:
        build: where the exported artefacts go.
        repository: the Triton model repository to write.
        texts: how many held-out dates, and how many pairs of digits, to ask.
    """
    began = time.monotonic()
    console = Console()
    console.width = max(console.width, 120)
    showcases = [
        Digits("digits-vit"),
        Digits("digits-swin"),
        Captions("digits-captioner", texts),
        Dates("dates-transformer", texts),
        Dates("dates-gru", texts),
        Prompts("stdlib-lm"),
    ]
    folders = [build / showcase.name for showcase in showcases]
    for showcase, folder in zip(showcases, folders, strict=True):
        _export_and_prove(folder, showcase.explained)
    write_repository(folders, repository)
    outcomes = _ask(console, showcases, build, repository)
    attention = _draw_attention(build)
    _print_places(console, folders, repository, attention, time.monotonic() - began)
    _require_equal(outcomes)
    return 0


def _export_and_prove(folder: Path, explained: bool) -> None:
    export_onnx(folder.name, folder, explained)
    measurements = climb(folder)
    rungs = rungs_of(measurements)
    report = write_report(measurements, rungs, folder)
    print_rungs(folder.name, rungs)
    require_parity(rungs, report)


def _ask(console: Console, showcases: Sequence[Showcase], build: Path, repository: Path) -> list[Outcome]:
    with TritonServer(_settings(repository)) as server:
        names = {showcase.name for showcase in showcases}
        server.wait_until_ready(canary_check(names, timeout_s=10.0), START_TIMEOUT_S)
        grpc = server.endpoints.grpc
        console.print(f"Triton answers: gRPC {grpc}, REST http://{server.endpoints.http}/v2", highlight=False)
        outcomes = [showcase.ask(build / showcase.name, grpc) for showcase in showcases]
    for showcase, outcome in zip(showcases, outcomes, strict=True):
        showcase.show(console, outcome)
    print_table(console, outcomes)
    return outcomes


def _draw_attention(build: Path) -> Path:
    out = build / "attention.png"
    explain(checkpoint_named("digits-vit"), Wish(subject=str(EXAMPLE_IMAGE), out=out))
    return out


def _settings(repository: Path) -> ServerSettings:
    http, grpc, metrics = free_ports(3)
    return ServerSettings(repository=repository, http_port=http, grpc_port=grpc, metrics_port=metrics)


def _print_places(console: Console, folders: Sequence[Path], repository: Path, attention: Path, seconds: float) -> None:
    console.print(f"graphs, manifests, parity.json   {', '.join(map(str, folders))}", highlight=False)
    console.print(f"Triton model repository          {repository}", highlight=False)
    console.print(f"what digits-vit attends to       {attention}", highlight=False)
    console.print(f"done in {seconds:.0f} s, and Triton is stopped", highlight=False)
    console.print("`make up` leaves Triton, the gateway and its page running, and prints the address", highlight=False)


def _require_equal(outcomes: list[Outcome]) -> None:
    for outcome in outcomes:
        if not outcome.equal:
            raise ParityError(
                f"the same answers from {outcome.name} in PyTorch, in process and served",
                "different ones",
                "run `python -m export check` on its folder",
            )


if __name__ == "__main__":
    run("python -m quickstart", str(__doc__), {"run": quickstart}, ["run", *sys.argv[1:]])
