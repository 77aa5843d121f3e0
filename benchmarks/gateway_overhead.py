"""What the gateway adds to direct gRPC: for a request that is answered whole, and for each token of a stream.

    python benchmarks/gateway_overhead.py [--blocks N] [--patience S] [--out DIR] [--scratch DIR]

Both sides are asked for the same in turns, one request at a time: Triton by our gRPC client, the gateway by a bare HTTP
client, so that no client's own time is counted. One number a round:

    unary     median seconds of a request, through the gateway − direct
    streamed  seconds of a stream of 64 tokens less those of one of 1 token, through the gateway − direct, a token
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from attendant.sampling_params import SamplingParams  # noqa: E402
from benchmarks.gateway.bare_http import BareClient  # noqa: E402
from benchmarks.gateway.processes import gateway_before  # noqa: E402
from benchmarks.generation.quiet import NOTE, Foreign, counting  # noqa: E402
from benchmarks.generation.served import exported, server_over  # noqa: E402
from benchmarks.generation.written import preamble, table, write_result  # noqa: E402
from benchmarks.peers.processes import wait_until_quiet  # noqa: E402
from benchmarks.peers.rounds import QUIET  # noqa: E402
from clients.classify import Classifier  # noqa: E402
from clients.generate import Generator  # noqa: E402
from clients.triton_client import TritonClient  # noqa: E402
from serving.engine.settings import EngineSettings  # noqa: E402

WRITER, CLASSIFIER = "stdlib-lm", "digits-vit"
PROMPT, TOKENS = "Open a file and", 64
IMAGE = ROOT / "docs/examples/three.png"
UNARY_MS, STREAMED_MS = 1.5, 0.3
TOGETHER = 20
"""Rounds of all cases in a block; how quiet the machine was is known of a block."""
Ask = Callable[[], Awaitable[Any]]
Found = dict[str, dict[str, list[tuple[float, float]]]]


def main() -> None:
    """Measure, print, and write."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("--blocks", type=int, default=20, help=f"of {TOGETHER} rounds of every case")
    parser.add_argument("--patience", type=float, default=10.0, help="seconds to wait for a quiet machine, a block")
    parser.add_argument("--out", type=Path, help="folder for <date>-gateway-overhead.md and .json; none if absent")
    parser.add_argument("--scratch", type=Path, help="folder for artefacts; kept if given")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        scratch = asked.scratch or Path(temporary)
        artefacts = exported([WRITER, CLASSIFIER], scratch / "artefacts")
        with (
            server_over(artefacts, scratch, EngineSettings(prefix_cache_bytes=0)) as server,
            gateway_before(server.endpoints.grpc, probe_s=3600) as (gateway, port),
        ):
            groups = (server.group, gateway.pid)
            found = asyncio.run(measured(server.endpoints.grpc, port, groups, asked.blocks, asked.patience))
    text = report(found)
    if asked.out is not None:
        write_result(asked.out, "gateway-overhead", text, found)
    sys.stdout.write(text + "\n")


async def measured(triton: str, port: int, groups: tuple[int | None, ...], blocks: int, patience_s: float) -> Found:
    """Seconds of every case on both sides, in turns, each with the share of the processors that others used."""
    async with TritonClient(triton) as client, BareClient(port) as http:
        cases = await cases_of(client, http)
        found: Found = {name: {"direct": [], "gateway": []} for name in cases}
        for number in range(1 + blocks):
            wait_until_quiet(patience_s, QUIET)
            foreign, seconds = Foreign(*groups), list[tuple[str, str, float]]()
            for turn in range(TOGETHER):
                for name, sides in cases.items():
                    for side in sorted(sides, reverse=bool(turn % 2)):
                        seconds.append((name, side, await timed(sides[side])))
            share = foreign.share()
            for name, side, value in seconds if number else ():  # the first block warms up
                found[name][side].append((value, share))
    return found


async def cases_of(client: TritonClient, http: BareClient) -> dict[str, dict[str, Ask]]:
    """Case → how each side is asked."""
    writer, classifier = await Generator.find(client), await Classifier.find(client)
    image = base64.b64encode(IMAGE.read_bytes()).decode()

    def direct(tokens: int) -> Ask:
        return lambda: writer.answers(PROMPT, SamplingParams(max_tokens=tokens, ignore_eos=True, token_counts=True))

    def body(tokens: int, stream: bool) -> dict[str, Any]:
        options = {"max_tokens": tokens, "temperature": 0, "ignore_eos": True, "stream": stream}
        return {"model": WRITER, "prompt": PROMPT, **options}

    return {
        "classify": {
            "direct": lambda: classifier.classify_file(IMAGE, 5),
            "gateway": lambda: http.post("/v1/classify", {"model": CLASSIFIER, "image": image}),
        },
        "completion, 1 token": {
            "direct": direct(1),
            "gateway": lambda: http.post("/v1/completions", body(1, stream=False)),
        },
        **{
            f"stream, {tokens} tokens": {
                "direct": direct(tokens),
                "gateway": lambda tokens=tokens: http.events("/v1/completions", body(tokens, stream=True)),  # type: ignore[misc]
            }
            for tokens in (1, TOKENS)
        },
    }


async def timed(ask: Ask) -> float:
    """Seconds of one question."""
    began = time.perf_counter()
    await ask()
    return time.perf_counter() - began


def report(found: Found) -> str:
    """Markdown."""
    medians = {
        name: {side: 1e3 * float(np.median(counting(samples)[0])) for side, samples in sides.items()}
        for name, sides in found.items()
    }
    mark = counting(found["classify"]["direct"])[1]
    rows = []
    for name, sides in medians.items():
        added = sides["gateway"] - sides["direct"]
        target = ("met" if added <= UNARY_MS else "missed") if not name.startswith("stream") else ""
        rows.append([name, f"{sides['direct']:.2f}", f"{sides['gateway']:.2f}", f"{added:.2f}{mark}", target])
    many, one = medians[f"stream, {TOKENS} tokens"], medians["stream, 1 tokens"]
    each = ((many["gateway"] - one["gateway"]) - (many["direct"] - one["direct"])) / (TOKENS - 1)
    rows.append(
        ["each further token of a stream", "", "", f"{each:.3f}{mark}", "met" if each <= STREAMED_MS else "missed"]
    )
    return "\n".join(
        [
            *preamble("What the gateway adds", "benchmarks/gateway_overhead.py", sys.argv[1:]),
            f"Medians of {len(found['classify']['direct'])} rounds, both sides in turns, one request at a time. {NOTE}",
            f"Targets: {UNARY_MS} ms a request, {STREAMED_MS} ms a streamed token.\n",
            table(["case", "direct gRPC, ms", "gateway, ms", "added, ms", "target"], rows),
        ]
    )


if __name__ == "__main__":
    main()
