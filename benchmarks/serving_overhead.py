"""What serving adds to the in-process engine: for each streamed response, and for each request that is answered whole.

    python benchmarks/serving_overhead.py [--models NAME ...] [--blocks N] [--out DIR] [--scratch DIR]

The engine of this process and the one behind Triton get the same requests in turns, alone and eight at once, on one
thread each. One number a round:

    streamed  seconds to the last token, served − in process, less the same of requests of one token: what the
              responses after the first add, divided by how many these are. Tokens that come while another is sent
              leave together, so there are fewer responses than tokens
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

from attendant.sampling_params import SamplingParams  # noqa: E402
from benchmarks.generation.asking import ask  # noqa: E402
from benchmarks.generation.engines import Timed, loaded  # noqa: E402
from benchmarks.generation.mix import subjects_of  # noqa: E402
from benchmarks.generation.quiet import NOTE, Foreign, counting  # noqa: E402
from benchmarks.generation.served import exported, server_over  # noqa: E402
from benchmarks.generation.tensors import request_tensors  # noqa: E402
from benchmarks.generation.written import preamble, table, write_result  # noqa: E402
from benchmarks.peers.processes import wait_until_quiet  # noqa: E402
from benchmarks.peers.rounds import QUIET  # noqa: E402
from serving.engine.settings import EngineSettings  # noqa: E402
from serving.engine.text_generation_model import TextGenerationModel  # noqa: E402
from serving.triton.server.process import TritonServer  # noqa: E402

TOKENS = {"stdlib-lm": 64, "dates-transformer": 12}
"""Of a streamed answer; it goes on after an end token, so that each has as many."""
FLIGHTS = (1, 8)
STREAMED_MS, UNARY_MS = 0.35, 1.0
SETTINGS = EngineSettings(prefix_cache_bytes=0)
TOGETHER = 10
"""Rounds of all cases in a block; how quiet the machine was is known of a block."""
Found = dict[str, dict[str, Any]]


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
    parser.add_argument("--blocks", type=int, default=20, help=f"of {TOGETHER} rounds of every case")
    parser.add_argument("--patience", type=float, default=10.0, help="seconds to wait for a quiet machine, a block")
    parser.add_argument("--out", type=Path, help="folder for <date>-serving-overhead.md and .json; none if absent")
    parser.add_argument("--scratch", type=Path, help="folder for artefacts; kept if given")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        scratch = asked.scratch or Path(temporary)
        artefacts = exported(asked.models, scratch / "artefacts")
        with server_over(artefacts, scratch, SETTINGS) as server:
            found = {
                name: asyncio.run(measured(name, loaded(folder, SETTINGS), server, asked.blocks, asked.patience))
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


async def measured(
    name: str, model: TextGenerationModel, server: TritonServer, blocks: int, patience_s: float
) -> Found:
    """Seconds of every case on both sides, in turns, a block of rounds after the other."""
    subjects, client = subjects_of(name), aio.InferenceServerClient(server.endpoints.grpc)
    cases = cases_of(name)
    found: Found = {
        case.name: {
            "flights": case.flights,
            "tokens": case.tokens,
            "stream": case.stream,
            "inside": [],
            "served": [],
            "responses": [],
        }
        for case in cases
    }
    try:
        for number in range(1 + blocks):
            wait_until_quiet(patience_s, QUIET)
            foreign, seconds = Foreign(server.group), list[tuple[Case, float, tuple[float, int]]]()
            for turn in range(TOGETHER):
                asked = [subjects[(number * TOGETHER + turn + one) % len(subjects)] for one in range(max(FLIGHTS))]
                for case in cases:
                    some = asked[: case.flights]
                    seconds.append((case, inside(model, some, case), await served(client, name, some, case)))
            share = foreign.share()
            for case, own, (out, responses) in seconds if number else ():  # the first block warms up
                found[case.name]["inside"].append((own, share))
                found[case.name]["served"].append((out, share))
                found[case.name]["responses"].append((responses, share))
    finally:
        await client.close()
    return found


def options_of(case: Case) -> SamplingParams:
    """Greedy decoding of just so many tokens."""
    return SamplingParams(max_tokens=case.tokens, ignore_eos=True)


def inside(model: TextGenerationModel, subjects: list[Any], case: Case) -> float:
    """Answer in this thread; seconds to the last piece."""
    began = time.monotonic()
    sinks = [Timed() for _ in subjects]
    for subject, sink in zip(subjects, sinks, strict=True):
        model.engine.submit(model.request(subject, options_of(case)), sink)
    while not all(sink.is_over for sink in sinks):
        model.engine.step()
    return time.monotonic() - began


async def served(client: aio.InferenceServerClient, name: str, subjects: list[Any], case: Case) -> tuple[float, int]:
    """Ask the server, each request on a stream of its own; seconds to the last response, and how many there were."""
    began = time.monotonic()
    tensors = [request_tensors(subject, options_of(case), case.stream) for subject in subjects]
    heard = await asyncio.gather(*(ask(client, name, one) for one in tensors))
    assert all(len(one.token_times_s) == case.tokens for one in heard), [one.error for one in heard]
    return max(one.arrivals_s[-1] for one in heard) - began, sum(len(one.arrivals_s) for one in heard)


def report(found: dict[str, Found]) -> str:
    """Markdown."""
    rows = [[model, case, *_cells(one, cases)] for model, cases in found.items() for case, one in cases.items()]
    heads = [
        "model",
        "case",
        "in process, ms",
        "served, ms",
        "added, ms",
        "responses",
        "added by each further response, ms",
        "target",
        "rounds",
    ]
    return "\n".join(
        [
            *preamble("What serving adds", "benchmarks/serving_overhead.py", sys.argv[1:]),
            "Medians of rounds, both sides in turns. " + NOTE,
            "Of several requests at once, until the last is answered; responses are those of all. Targets: "
            f"{STREAMED_MS} ms a streamed response, {UNARY_MS:g} ms for a request with one response, one at a time.\n",
            table(heads, rows),
        ]
    )


def _cells(one: dict[str, Any], cases: Found) -> list[str]:
    own, out = _milliseconds(one)
    added, mark = out - own, counting(one["served"])[1]
    responses = float(np.mean(counting(one["responses"])[0]))
    each, target = "", ""
    if one["stream"]:
        first_own, first_out = _milliseconds(cases[f"unary, 1 tokens, {one['flights']} at once"])
        further = (added - (first_out - first_own)) / (responses - one["flights"])
        each, target = f"{further:.3f}{mark}", "met" if further <= STREAMED_MS else "missed"
    elif one["flights"] == 1:
        target = "met" if added <= UNARY_MS else "missed"
    rounds = str(len(counting(one["inside"])[0]))
    return [f"{own:.2f}", f"{out:.2f}", f"{added:.2f}{mark}", f"{responses:.1f}", each, target, rounds]


def _milliseconds(one: dict[str, Any]) -> tuple[float, float]:
    own, out = (1e3 * float(np.median(counting(one[side])[0])) for side in ("inside", "served"))
    return own, out


if __name__ == "__main__":
    main()
