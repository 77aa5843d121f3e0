"""From two checkpoints to answers over gRPC: export, parity, repository, Triton, held-out questions, one table."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from rich.console import Console

from export.ladder import climb
from export.parity import require_parity, rungs_of, write_report
from export.report import print_rungs
from export.stage import export_onnx
from models.checkpoints.resolve import checkpoint_named
from models.cli import run
from models.errors import ParityError
from models.train.dates import held_out as held_out_dates
from models.train.digits import held_out as held_out_digits
from quickstart import dates, digits
from quickstart.report import Outcome, print_samples, print_table
from serving.canary import canary_check
from serving.repository.layout import write_repository
from serving.runtime.base import Array
from serving.triton_server.ports import free_ports
from serving.triton_server.process import TritonServer
from serving.triton_server.settings import ServerSettings

DIGITS, DATES = "digits-vit", "dates-transformer"
START_TIMEOUT_S = 60.0


def quickstart(build: Path = Path("build"), repository: Path = Path("model_repository"), texts: int = 500) -> int:
    """Take the two shipped checkpoints down the whole road, and compare every answer on the way.

    Args:
        build: where the exported artefacts go.
        repository: the Triton model repository to write.
        texts: how many held-out dates to ask.
    """
    began = time.monotonic()
    console = Console()
    console.width = max(console.width, 120)
    folders = [build / name for name in (DIGITS, DATES)]
    for folder in folders:
        _export_and_prove(folder)
    write_repository(folders, repository)
    outcomes = _ask(console, build, repository, texts)
    _print_places(console, build, repository, time.monotonic() - began)
    _require_equal(outcomes)
    return 0


def _export_and_prove(folder: Path) -> None:
    export_onnx(folder.name, folder)
    measurements = climb(folder)
    rungs = rungs_of(measurements)
    report = write_report(measurements, rungs, folder)
    print_rungs(folder.name, rungs)
    require_parity(rungs, report)


def _ask(console: Console, build: Path, repository: Path, count: int) -> list[Outcome]:
    with TritonServer(_settings(repository)) as server:
        server.wait_until_ready(canary_check({DIGITS, DATES}, timeout_s=10.0), START_TIMEOUT_S)
        grpc = server.endpoints.grpc
        console.print(f"Triton answers: gRPC {grpc}, REST http://{server.endpoints.http}/v2", highlight=False)
        images, digits_outcome = _ask_digits(build / DIGITS, grpc)
        texts, dates_outcome = _ask_dates(build / DATES, grpc, count)
    print_samples(console, images, digits_outcome, texts, dates_outcome)
    print_table(console, [digits_outcome, dates_outcome])
    return [digits_outcome, dates_outcome]


def _ask_digits(folder: Path, server: str) -> tuple[Array, Outcome]:
    checkpoint = checkpoint_named(DIGITS)
    images, classes = held_out_digits()
    return images, Outcome(
        name=DIGITS,
        truths=[checkpoint.details["labels"][index] for index in classes],
        pytorch=digits.in_pytorch(checkpoint, images),
        process=digits.in_process(folder, images),
        served=digits.served(server, DIGITS, images),
    )


def _ask_dates(folder: Path, server: str, count: int) -> tuple[list[str], Outcome]:
    pairs = held_out_dates(count)
    texts = [text for text, _ in pairs]
    return texts, Outcome(
        name=DATES,
        truths=[answer for _, answer in pairs],
        pytorch=dates.in_pytorch(checkpoint_named(DATES), texts),
        process=dates.in_process(folder, texts),
        served=dates.served(server, DATES, texts),
    )


def _settings(repository: Path) -> ServerSettings:
    http, grpc, metrics = free_ports(3)
    return ServerSettings(repository=repository, http_port=http, grpc_port=grpc, metrics_port=metrics)


def _print_places(console: Console, build: Path, repository: Path, seconds: float) -> None:
    console.print(f"graphs, manifests, parity.json   {build / DIGITS}, {build / DATES}", highlight=False)
    console.print(f"Triton model repository          {repository}", highlight=False)
    console.print(f"done in {seconds:.0f} s, Triton is stopped; serve on with `python -m serving up`", highlight=False)


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
