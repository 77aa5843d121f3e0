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
from quickstart import dates, digits
from quickstart.report import Outcome, print_samples, print_table
from serving.canary import canary_check
from serving.repository.layout import write_repository
from serving.triton_server.endpoints import Endpoints
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
    from models.train.dates import held_out as held_out_dates
    from models.train.digits import held_out as held_out_digits

    images, labels = held_out_digits()
    pairs = held_out_dates(count)
    texts, truths = [text for text, _ in pairs], [answer for _, answer in pairs]
    with TritonServer(_settings(repository)) as server:
        server.wait_until_ready(canary_check({DIGITS, DATES}, timeout_s=10.0), START_TIMEOUT_S)
        _print_endpoints(console, server.endpoints)
        outcomes = [
            Outcome(
                name=DIGITS,
                truths=[str(label) for label in labels],
                pytorch=digits.in_pytorch(checkpoint_named(DIGITS), images),
                process=digits.in_process(build / DIGITS, images),
                served=digits.served(server.endpoints.grpc, DIGITS, images),
            ),
            Outcome(
                name=DATES,
                truths=truths,
                pytorch=dates.in_pytorch(checkpoint_named(DATES), texts),
                process=dates.in_process(build / DATES, texts),
                served=dates.served(server.endpoints.grpc, DATES, texts),
            ),
        ]
    print_samples(console, images, outcomes[0], texts, outcomes[1])
    print_table(console, outcomes)
    return outcomes


def _settings(repository: Path) -> ServerSettings:
    http, grpc, metrics = free_ports(3)
    return ServerSettings(repository=repository, http_port=http, grpc_port=grpc, metrics_port=metrics)


def _print_endpoints(console: Console, endpoints: Endpoints) -> None:
    console.print(f"Triton answers: gRPC {endpoints.grpc}, REST http://{endpoints.http}/v2", highlight=False)


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
