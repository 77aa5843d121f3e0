"""What serving adds to the in-process engine: for each streamed response, and for each request that is answered whole.

    python benchmarks/serving_overhead.py [--models NAME ...] [--rounds N] [--out DIR] [--scratch DIR]

The engine of this process and the one behind Triton get the same requests in turns, alone and eight at once, on one
thread each. One number a round:

    streamed  (seconds to the last token, served − in process) / tokens: what each token of an answer pays for leaving
              the engine, the server and gRPC, and for arriving in a Python client on the same machine
    unary     median seconds of a request with one response, served − in process

Requests at once share what is left of the processors: their in-process seconds are those of all of them, stepped by
one thread.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from tritonclient.grpc import aio  # noqa: E402

from benchmarks.generation.asking import ask  # noqa: E402
from benchmarks.generation.engines import Timed, loaded  # noqa: E402
from benchmarks.generation.mix import subjects_of  # noqa: E402
from benchmarks.generation.served import exported, server_over  # noqa: E402
from benchmarks.generation.tensors import request_tensors  # noqa: E402
from benchmarks.generation.written import preamble, table, write_result  # noqa: E402
from serving.generation.options import DecodingOptions  # noqa: E402
from serving.generation.settings import EngineSettings  # noqa: E402
from serving.generation.writing_model import WritingModel  # noqa: E402

TOKENS = {"stdlib-lm": 64, "dates-transformer": 12}
"""Of a streamed answer; it goes on after an end token, so that each has as many."""
FLIGHTS = (1, 8)
STREAMED_MS, UNARY_MS = 0.35, 1.0
SETTINGS = EngineSettings(prefix_bytes=0)
WARM_UP = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What is asked.

    Attributes:
        name: for tables.
        flights: requests at once.
        tokens: of each answer.
        stream: whether it is answered as tokens come.
    """

    name: str
    flights: int
    tokens: int
    stream: bool


def main() -> None:
    """Measure, print, and write."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("--models", nargs="+", default=list(TOKENS), help="shipped models")
    parser.add_argument("--rounds", type=int, default=150, help="of every case")
    parser.add_argument("--out", type=Path, help="folder for <date>-serving-overhead.md and .json; none if absent")
    parser.add_argument("--scratch", type=Path, help="folder for artefacts; kept if given")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        scratch = asked.scratch or Path(temporary)
        artefacts = exported(asked.models, scratch / "artefacts")
        with server_over(artefacts, scratch, SETTINGS) as server:
            found = {
                name: asyncio.run(measured(name, loaded(folder, SETTINGS), server.endpoints.grpc, asked.rounds))
                for name, folder in artefacts.items()
            }
    text = report(found)
    if asked.out is not None:
        write_result(asked.out, "serving-overhead", text, found)
    sys.stdout.write(text + "\n")


def cases_of(model: str) -> list[Case]:
    """Streams and requests with one response, of one and of many tokens."""
    many = TOKENS[model]
    return [
        Case(
            name=f"{kind}, {tokens} tokens, {flights} at once",
            flights=flights,
            tokens=tokens,
            stream=kind == "streamed",
        )
        for flights in FLIGHTS
        for kind, tokens in (("streamed", many), ("unary", many), ("unary", 1))
    ]


async def measured(name: str, model: WritingModel, server: str, rounds: int) -> dict[str, dict[str, Any]]:
    """Seconds of every case on both sides, in turns; case → side → one value a round."""
    subjects, client = subjects_of(name), aio.InferenceServerClient(server)
    cases = cases_of(name)
    found: dict[str, dict[str, Any]] = {
        case.name: {"flights": case.flights, "tokens": case.tokens, "stream": case.stream, "inside": [], "served": []}
        for case in cases
    }
    try:
        for number in range(WARM_UP + rounds):
            for case in cases:
                asked = [subjects[(number * 8 + one) % len(subjects)] for one in range(case.flights)]
                found[case.name]["inside"].append(inside(model, asked, case))
                found[case.name]["served"].append(await served(client, name, asked, case))
    finally:
        await client.close()
    for one in found.values():
        one["inside"], one["served"] = one["inside"][WARM_UP:], one["served"][WARM_UP:]
    return found


def options_of(case: Case) -> DecodingOptions:
    """Greedy decoding of just so many tokens."""
    return DecodingOptions(max_tokens=case.tokens, ignore_end=True)


def inside(model: WritingModel, subjects: list[Any], case: Case) -> float:
    """Answer in this thread; seconds to the last piece."""
    began = time.monotonic()
    sinks = [Timed() for _ in subjects]
    for subject, sink in zip(subjects, sinks, strict=True):
        model.engine.submit(model.request(subject, options_of(case)), sink)
    while not all(sink.is_over for sink in sinks):
        model.engine.step()
    return time.monotonic() - began


async def served(client: aio.InferenceServerClient, name: str, subjects: list[Any], case: Case) -> float:
    """Ask the server, each request on a stream of its own; seconds to the last response."""
    began = time.monotonic()
    tensors = [request_tensors(subject, options_of(case), case.stream) for subject in subjects]
    heard = await asyncio.gather(*(ask(client, name, one) for one in tensors))
    assert all(len(one.token_times_s) == case.tokens for one in heard), [one.error for one in heard]
    return max(one.arrivals_s[-1] for one in heard) - began


def report(found: dict[str, dict[str, dict[str, Any]]]) -> str:
    """Markdown."""
    rows = [[model, case, *_cells(one)] for model, cases in found.items() for case, one in cases.items()]
    heads = ["model", "case", "in process, ms", "served, ms", "added, ms", "added a token, ms", "target"]
    return "\n".join(
        [
            *preamble("What serving adds", "benchmarks/serving_overhead.py", sys.argv[1:]),
            "Medians over rounds, both sides in turns; of several requests at once, until the last is answered. Added "
            "a token counts the tokens of all of them. Targets: "
            f"{STREAMED_MS} ms a streamed response, {UNARY_MS:g} ms for a request with one response, one at a time.\n",
            table(heads, rows),
        ]
    )


def _cells(one: dict[str, Any]) -> list[str]:
    own, out = 1e3 * np.median(one["inside"]), 1e3 * np.median(one["served"])
    added = out - own
    each = added / (one["tokens"] * one["flights"])
    if one["stream"]:
        target = "met" if each <= STREAMED_MS else "missed"
    else:
        target = "" if one["flights"] > 1 else "met" if added <= UNARY_MS else "missed"
    return [f"{own:.2f}", f"{out:.2f}", f"{added:.2f}", f"{each:.3f}", target]


if __name__ == "__main__":
    main()
