"""What an explanation costs those who ask for it, and those who do not: plain and explained, side by side in a run.

    python benchmarks/explain_cost.py [--models NAME ...] [--requests N] [--scratch DIR]

In process: one run of the graph on one image, or one whole answer to the checkpoint's example. Over gRPC: the same from
a client on this machine, behind Triton, with every output. Over HTTP: through the gateway, /v1/classify or
/v1/translate beside /v1/explain, as JSON and as a PNG, and for classifiers with the evidence of occlusion, which asks
the plain graph once for each part of the image. The kinds take turns, so that whatever else the machine does meets all
alike. Milliseconds are medians (p50) of single requests; one thread.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import io
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import httpx
import numpy as np
from PIL import Image

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from attendant.manifest import Manifest  # noqa: E402
from attendant.sampling_params import SamplingParams  # noqa: E402
from attendant.tensor_names import EXPLAINED, LOGITS, PIXELS  # noqa: E402
from clients.classify import Classifier  # noqa: E402
from clients.translate import Translator  # noqa: E402
from clients.triton_client import TritonClient  # noqa: E402
from export.artefact.stage import export_onnx  # noqa: E402
from serving.engine import translator  # noqa: E402
from serving.gateway.settings import GatewaySettings  # noqa: E402
from serving.gateway.sidecar import gateway_beside  # noqa: E402
from serving.runtime.base import Array  # noqa: E402
from serving.runtime.create_runners import create_runners  # noqa: E402
from serving.triton.canary import canary_check  # noqa: E402
from serving.triton.repository.layout import write_repository  # noqa: E402
from serving.triton.server.ports import free_ports  # noqa: E402
from serving.triton.server.process import TritonServer  # noqa: E402
from serving.triton.server.settings import ServerSettings  # noqa: E402

MODELS = ("digits-vit", "digits-swin", "vit-ti-16", "dates-transformer", "dates-gru")
WARM_UP = 5
TIMEOUT_S = 60.0
PLAIN, HTTP_KINDS = "HTTP, plain", ("explained, JSON", "PNG", "occlusion")
COLUMNS = ("in process, plain", "explained", "gRPC, plain", "explained", "kB shown", PLAIN, *HTTP_KINDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What one model took.

    Attributes:
        name: the model.
        seconds: of each kind of request, one after another.
        shown: bytes of the explanation of one request.
    """

    name: str
    seconds: dict[str, list[float]] = field(default_factory=dict)
    shown: int = 0

    def cells(self) -> list[str]:
        """The medians in milliseconds, each explained one with its ratio to the plain one."""
        ms = {kind: 1e3 * median(values) for kind, values in self.seconds.items()}
        inside, explained, served, shown = list(ms.values())[:4]
        plain = ms.get(PLAIN, 0.0)
        return [
            f"{inside:.2f}",
            f"{explained:.2f} ({explained / inside:.2f}×)",
            f"{served:.2f}",
            f"{shown:.2f} ({shown / served:.2f}×)",
            f"{self.shown / 1e3:.1f}",
            f"{plain:.2f}" if plain else "",
            *(f"{ms[kind]:.2f} ({ms[kind] / plain:.2f}×)" if kind in ms else "" for kind in HTTP_KINDS),
        ]


def main() -> None:
    """Export, measure in process and behind a server, and print a table."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("--models", nargs="+", default=list(MODELS), help="classifiers and translators")
    parser.add_argument("--requests", type=int, default=200, help="of each kind")
    parser.add_argument("--scratch", type=Path, default=None, help="folder for artefacts; kept if given")
    wish = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        place = (wish.scratch or Path(temporary)) / "artefacts"
        manifests = export_all(wish.models, place)
        rows = {name: in_process(place / name, one, wish.requests) for name, one in manifests.items()}
        with server_over(place, wish.models) as server:
            for name, row in rows.items():
                rows[name] = asyncio.run(over_grpc(row, manifests[name], server, wish.requests))
            (port,) = free_ports(1)
            settings = GatewaySettings(tritons=(server,), port=port, probe_s=TIMEOUT_S)
            with (
                gateway_beside(settings, settings.host) as gateway,
                httpx.Client(base_url=gateway.url, timeout=TIMEOUT_S) as http,
            ):
                gateway.start()
                for name, row in rows.items():
                    taken = in_turn(over_http(http, manifests[name]), wish.requests)
                    rows[name] = Row(name=name, seconds={**row.seconds, **taken}, shown=row.shown)
    sys.stdout.write(table([rows[name] for name in wish.models]))


def export_all(names: list[str], place: Path) -> dict[str, Manifest]:
    """Every model with its explanation; name → manifest."""
    return {name: export_onnx(name, place / name, explain=True)[0] for name in names}


def in_process(folder: Path, manifest: Manifest, requests: int) -> Row:
    """One image through either graph, or one answer by either decoder."""
    kinds = _answers(folder, manifest) if manifest.task == "translate" else _runs(folder, manifest)
    return Row(
        name=manifest.name, seconds={f"in process, {kind}": one for kind, one in in_turn(kinds, requests).items()}
    )


def in_turn(kinds: dict[str, Callable[[], Any]], requests: int) -> dict[str, list[float]]:
    """Seconds of each call, the kinds taking turns."""
    seconds: dict[str, list[float]] = {kind: [] for kind in kinds}
    for _ in range(WARM_UP + requests):
        for kind, call in kinds.items():
            began = time.perf_counter()
            call()
            seconds[kind].append(time.perf_counter() - began)
    return {kind: values[WARM_UP:] for kind, values in seconds.items()}


def _runs(folder: Path, manifest: Manifest) -> dict[str, Callable[[], Any]]:
    runners, pixels = create_runners(folder, manifest), image(manifest)
    return {
        "plain": lambda: runners["model"].run({PIXELS: pixels}),
        "explained": lambda: runners[EXPLAINED].run({PIXELS: pixels}),
    }


def _answers(folder: Path, manifest: Manifest) -> dict[str, Callable[[], Any]]:
    model, text = translator.Translator(folder, manifest), manifest.example["inputs"]["text"]
    return {
        "plain": lambda: list(model.stream(model.request(text))),
        "explained": lambda: list(model.stream(model.request(text, SamplingParams(explain=True)))),
    }


def image(manifest: Manifest) -> Array:
    """One random image, ``[1, C, height, width]``."""
    (pixels,) = manifest.graph("model").inputs
    return np.random.default_rng(0).random(pixels.shape({"batch": 1}), dtype=np.float32)


@contextmanager
def server_over(artefacts: Path, names: list[str]) -> Iterator[str]:
    """A tritonserver over a folder of artefacts; its gRPC address."""
    repository = artefacts.parent / "model_repository"
    write_repository([artefacts / name for name in names], repository)
    http, grpc, metrics = free_ports(3)
    settings = ServerSettings(repository=repository, http_port=http, grpc_port=grpc, metrics_port=metrics)
    with TritonServer(settings) as running:
        running.wait_until_ready(canary_check(set(names), TIMEOUT_S), TIMEOUT_S)
        yield running.endpoints.grpc


Call = Callable[[], Awaitable[Any]]


async def over_grpc(row: Row, manifest: Manifest, server: str, requests: int) -> Row:
    """Requests of either kind, taking turns."""
    async with TritonClient(server, TIMEOUT_S) as client:
        plain, explained = await calls(client, manifest)
        kinds = {"gRPC, plain": plain, "gRPC, explained": explained}
        seconds: dict[str, list[float]] = {kind: [] for kind in kinds}
        for _ in range(WARM_UP + requests):
            for kind, call in kinds.items():
                began = time.perf_counter()
                await call()
                seconds[kind].append(time.perf_counter() - began)
        size = await explained()
    over = {kind: values[WARM_UP:] for kind, values in seconds.items()}
    return Row(name=row.name, seconds={**row.seconds, **over}, shown=size)


async def calls(client: TritonClient, manifest: Manifest) -> tuple[Call, Call]:
    """A plain request and an explained one; the latter tells how many bytes its explanation has."""
    if manifest.task == "translate":
        model, text = await Translator.find(client, manifest.name), manifest.example["inputs"]["text"]

        async def answer(explain: bool) -> int:
            pieces = [piece async for piece in model.stream(text, SamplingParams(explain=explain))]
            return sum(piece.alignment.nbytes for piece in pieces if piece.alignment is not None)

        return lambda: answer(False), lambda: answer(True)
    classifier, pixels = await Classifier.find(client, manifest.name), image(manifest)

    async def maps() -> int:
        arrays = await classifier.explain(pixels)
        return sum(array.nbytes for name, array in arrays.items() if name != LOGITS)

    return lambda: classifier.logits(pixels), maps


def over_http(http: httpx.Client, manifest: Manifest) -> dict[str, Callable[[], Any]]:
    """A plain request through the gateway, and explained ones."""
    if manifest.task == "translate":
        text = {"model": manifest.name, "input": manifest.example["inputs"]["text"]}
        return {
            PLAIN: lambda: asked(http, "translate", text),
            HTTP_KINDS[0]: lambda: asked(http, "explain", text),
            HTTP_KINDS[1]: lambda: asked(http, "explain", {**text, "format": "png"}),
        }
    if "preprocessing" not in manifest.details:  # a preset without a checkpoint does not say how to prepare a file
        return {}
    picture = {"model": manifest.name, "image": png(image(manifest)[0])}
    return {
        PLAIN: lambda: asked(http, "classify", picture),
        HTTP_KINDS[0]: lambda: asked(http, "explain", picture),
        HTTP_KINDS[1]: lambda: asked(http, "explain", {**picture, "format": "png"}),
        HTTP_KINDS[2]: lambda: asked(http, "explain", {**picture, "kind": "occlusion"}),
    }


def asked(http: httpx.Client, route: str, body: dict[str, Any]) -> None:
    """One request that succeeds."""
    http.post(f"/v1/{route}", json=body).raise_for_status()


def png(pixels: Array) -> str:
    """An image ``[C, height, width]`` from 0 to 1 as a file in base64."""
    file = io.BytesIO()
    Image.fromarray((pixels.transpose(1, 2, 0) * 255).astype(np.uint8).squeeze()).save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()


def table(rows: list[Row]) -> str:
    """A Markdown table of milliseconds."""
    lines = ["| model | " + " | ".join(COLUMNS) + " |", "|---" * (len(COLUMNS) + 1) + "|"]
    lines += ["| " + " | ".join([row.name, *row.cells()]) + " |" for row in rows]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
