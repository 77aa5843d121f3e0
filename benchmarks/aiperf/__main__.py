r"""AIPerf and our load generator load the same server; do they find the same?

    python -m benchmarks.aiperf                                             a server of known token times, in turns
    python -m benchmarks.aiperf --gateway stdlib-lm --apart --rate 15       a gateway before Triton, begun here
    python -m benchmarks.aiperf --url http://127.0.0.1:8080 --model stdlib-lm \
        --tokenizer model_repository/stdlib-lm/1                            any OpenAI endpoint
    python -m benchmarks.aiperf --gateway stdlib-lm --simultaneous          both at the same time, one request at a time

--apart keeps the server to the first half of the cores and the tools to the second; --rate sends at even distances, so
that both tools give the server the same load. AIPerf's environment is made first if there is none
(benchmarks/aiperf/environment.sh, about 80 s). Exit status 1 if a figure differs by more than the noise that the rounds
themselves show.

--simultaneous tells why, where AIPerf alone finds a slower server than ours alone: a server that is slower while AIPerf
runs is slow for ours too; a clock that runs differently shows in AIPerf's figures only.
"""

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from benchmarks.aiperf.agreement import Agreement, agreement
from benchmarks.aiperf.known_server import MODEL
from benchmarks.aiperf.servers import BETWEEN_MS, FIRST_MS, gateway_over, known_times, on_cores
from benchmarks.aiperf.simultaneous import report_simultaneous, simultaneous_round
from benchmarks.aiperf.tools import (
    AIPERF,
    PAUSE,
    RATES,
    STATISTICS,
    Figures,
    StreamedLoad,
    aiperf_round,
    our_round,
    write_tokenizer,
)
from benchmarks.harness.machine import ROOT
from benchmarks.harness.report import Benchmark, table

BENCHMARK = Benchmark("aiperf", "AIPerf and `attendant load`", __doc__)


def main() -> int:
    parser = BENCHMARK.parser(rounds=7)
    parser.add_argument("--url", default="", help="of a server, without /v1; one of known times if not given")
    parser.add_argument("--gateway", default="", help="a checkpoint: load a gateway before a Triton over it")
    parser.add_argument("--simultaneous", action="store_true", help="both tools at the same time, not in turns")
    parser.add_argument("--apart", action="store_true", help="server and tools on cores of their own")
    parser.add_argument("--rate", type=float, default=0.0, help="requests a second; a closed loop if 0")
    parser.add_argument("--model", default=MODEL)
    parser.add_argument("--tokenizer", type=Path, help="folder with tokenizer.json, for AIPerf")
    parser.add_argument("--endpoint", choices=("completions", "chat"), default="completions")
    parser.add_argument("--concurrency", type=int, default=4)
    parser.add_argument("--requests", type=int, default=80, help="in a round")
    parser.add_argument("--tokens", type=int, default=32, help="of each answer")
    args = parser.parse_args()
    if not AIPERF.is_file():
        subprocess.run([ROOT / "benchmarks" / "aiperf" / "environment.sh", sys.executable], check=True)
    cores = sorted(os.sched_getaffinity(0))
    half = len(cores) // 2
    servers, tools = (cores[:half], cores[half:]) if args.apart else (cores, cores)
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        url, tokenizer = args.url, args.tokenizer
        with on_cores(set(servers)):
            if args.gateway:
                url, tokenizer = stack.enter_context(gateway_over(args.gateway))
            elif not url:
                url = stack.enter_context(known_times())
        stack.enter_context(on_cores(set(tools)))
        load = StreamedLoad(
            url=url,
            model=args.gateway or args.model,
            tokenizer=write_tokenizer(tokenizer, scratch / "tokenizer"),
            endpoint=args.endpoint,
            concurrency=1 if args.simultaneous else args.concurrency,
            requests=args.requests,
            tokens=args.tokens,
            rate=0.0 if args.simultaneous else args.rate,
        )
        if args.simultaneous:
            rounds = [asyncio.run(simultaneous_round(load, scratch / "aiperf")) for _ in range(args.rounds)]
            body = [describe(args, load), *report_simultaneous(rounds)]
            BENCHMARK.publish(args, body, {"rounds": rounds}, variant="simultaneous")
            return 0
        found = alternate_tools(load, args.rounds, scratch / "aiperf")
    known = {} if args.url or args.gateway else known_figures(args.tokens)
    agreed = {
        name: agreement([one[name] for one in found["aiperf"]], [one[name] for one in found["ours"]])
        for name in found["ours"][0]
    }
    # A pause is the tool's own, a given rate is no finding, and a rate of one caller has the pause in it.
    judged = {name for name in agreed if name != PAUSE and not (name in RATES and (args.rate or args.concurrency == 1))}
    body = [describe(args, load), *report(agreed, judged, known)]
    BENCHMARK.publish(args, body, found, variant="known" if known else "gateway" if args.gateway else "url")
    return int(any(agreed[name].verdict == "no" for name in judged))


def alternate_tools(load: StreamedLoad, rounds: int, scratch: Path) -> dict[str, list[Figures]]:
    """Each first as often as the other: what else the machine does then falls on both alike."""
    found: dict[str, list[Figures]] = {"aiperf": [], "ours": []}
    for number in range(rounds):
        for tool in ("aiperf", "ours") if number % 2 else ("ours", "aiperf"):
            found[tool].append(our_round(load) if tool == "ours" else aiperf_round(load, scratch))
        sys.stderr.write(f"round {number + 1} of {rounds}\n")
    return found


def known_figures(tokens: int) -> Figures:
    whole = FIRST_MS + (tokens - 1) * BETWEEN_MS
    truth = {"time_to_first_token": FIRST_MS, "inter_token_latency": BETWEEN_MS, "request_latency": whole}
    return {f"{key} {one}": value for key, value in truth.items() for one in STATISTICS}


def describe(args: argparse.Namespace, load: StreamedLoad) -> str:
    server = args.url or f"known times, first token {FIRST_MS:g} ms, then one each {BETWEEN_MS:g} ms"
    if args.gateway:
        server = "the gateway, before a Triton with one model"
    arrivals = f"{load.rate:g} a second" if load.rate else f"{load.concurrency} at once"
    return (
        f"- server: {server}{', on cores of its own' if args.apart else ''}\n"
        f"- load: {load.model}, /v1/{load.endpoint}, streamed, {arrivals}, {load.requests} requests of {load.tokens} "
        f"tokens a round, {args.rounds} rounds\n"
        f"- AIPerf 0.13.0, one worker; load average {os.getloadavg()[0]:.1f} at the end\n"
    )


def report(agreed: dict[str, Agreement], judged: set[str], known: Figures) -> Iterator[str]:
    yield "Milliseconds and rates a second, medians of the rounds in turns; noise: benchmarks/aiperf/agreement.py.\n"
    heads = ["figure", *(["truth"] if known else []), "AIPerf", "ours", "difference", "noise", "agree"]
    rows = []
    for name, one in agreed.items():
        truth = [f"{known[name]:.2f}" if name in known else ""] if known else []
        cells = [f"{one.aiperf:.2f}", f"{one.ours:.2f}", f"{one.difference:+.1%}", f"{one.noise:.2f}"]
        rows.append([name, *truth, *cells, one.verdict if name in judged else "not judged"])
    yield table(heads, rows)
    verdicts = [one.verdict for name, one in agreed.items() if name in judged]
    noisy = f", {verdicts.count('too noisy')} were too noisy to tell" if "too noisy" in verdicts else ""
    own = " Not judged: what holds the tool's own pause between two requests, or is given."
    yield (
        f"\n{verdicts.count('yes')} of {len(verdicts)} agree within the noise, {verdicts.count('no')} do not{noisy}."
        f"{own if len(verdicts) < len(agreed) else ''}"
    )


if __name__ == "__main__":
    raise SystemExit(main())
