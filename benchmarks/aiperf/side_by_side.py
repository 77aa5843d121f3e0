r"""AIPerf and our load generator ask the same server in turns; do they find the same?

    python benchmarks/aiperf/side_by_side.py                                     a server of known token times
    python benchmarks/aiperf/side_by_side.py --gateway stdlib-lm --apart --rate 15   a gateway before Triton, begun here
    python benchmarks/aiperf/side_by_side.py --url http://127.0.0.1:8080 --model stdlib-lm \
        --tokenizer model_repository/stdlib-lm/1                                 any OpenAI endpoint

--apart keeps the server to the first half of the cores and the tools to the second; --rate sends at even distances, so
that both tools give the server the same load. AIPerf's environment is made first if there is none
(benchmarks/aiperf/environment.sh, about 80 s). Exit status 1 if a figure differs by more than the noise that the rounds
themselves show.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.aiperf.agreement import Agreement, agreement  # noqa: E402
from benchmarks.aiperf.asked import AIPERF, PAUSE, RATES, Asked, Figures, aiperf_round, our_round  # noqa: E402
from benchmarks.aiperf.known_server import MODEL  # noqa: E402
from benchmarks.aiperf.servers import BETWEEN_MS, FIRST_MS, gateway_over, known_times, on_cores  # noqa: E402
from benchmarks.aiperf.tokenizer import tokenizer_folder  # noqa: E402

CORES = sorted(os.sched_getaffinity(0))


def main() -> int:
    """Measure, print, and write."""
    given = _arguments()
    if not AIPERF.is_file():
        subprocess.run([ROOT / "benchmarks" / "aiperf" / "environment.sh", sys.executable], check=True)
    servers, tools = (CORES[: len(CORES) // 2], CORES[len(CORES) // 2 :]) if given.apart else (CORES, CORES)
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        with on_cores(set(servers)):
            url, tokenizer = _server(given, stack)
        stack.enter_context(on_cores(set(tools)))
        asked = Asked(
            url=url,
            model=given.gateway or given.model,
            tokenizer=tokenizer_folder(tokenizer, scratch / "tokenizer"),
            endpoint=given.endpoint,
            concurrency=given.concurrency,
            requests=given.requests,
            tokens=given.tokens,
            rate=given.rate,
        )
        found = _rounds(asked, given.rounds, scratch / "aiperf")
    agreed = {name: agreement([one[name] for one in found[0]], [one[name] for one in found[1]]) for name in found[0][0]}
    known = {} if given.url or given.gateway else _known(given.tokens)
    page = _page(given, agreed, known)
    sys.stdout.write(page)
    if given.out is not None:
        given.out.write_text(page, encoding="utf-8")
        raw = {"aiperf": found[0], "ours": found[1]}
        given.out.with_suffix(".json").write_text(json.dumps(raw) + "\n", encoding="utf-8")
    return 1 if any(one.word == "no" for name, one in agreed.items() if _is_judged(name, given)) else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("--url", default="", help="of a server, without /v1; one of known times if not given")
    parser.add_argument("--gateway", default="", help="a checkpoint: ask a gateway before a Triton over it")
    parser.add_argument("--apart", action="store_true", help="server and tools on cores of their own")
    parser.add_argument("--rate", type=float, default=0.0, help="requests a second; a closed loop if 0")
    parser.add_argument("--model", default=MODEL)
    parser.add_argument("--tokenizer", type=Path, help="folder with tokenizer.json, for AIPerf")
    parser.add_argument("--endpoint", choices=("completions", "chat"), default="completions")
    parser.add_argument("--concurrency", type=int, default=4)
    parser.add_argument("--requests", type=int, default=80, help="in a round")
    parser.add_argument("--tokens", type=int, default=32, help="of each answer")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--out", type=Path, help="a Markdown file; the rounds are written as JSON beside it")
    return parser.parse_args()


def _server(given: argparse.Namespace, stack: ExitStack) -> tuple[str, Path | None]:
    if given.url:
        return given.url, given.tokenizer
    return (
        stack.enter_context(gateway_over(given.gateway))
        if given.gateway
        else (stack.enter_context(known_times()), None)
    )


def _is_judged(name: str, given: argparse.Namespace) -> bool:
    # A pause is the tool's own, a given rate is no finding, and a rate of one caller has the pause in it.
    return name != PAUSE and not (name in RATES and (given.rate or given.concurrency == 1))


def _rounds(asked: Asked, count: int, scratch: Path) -> tuple[list[Figures], list[Figures]]:
    # In turns, and each first as often as the other: what else the machine does then falls on both alike.
    found: tuple[list[Figures], list[Figures]] = [], []
    for number in range(count):
        turns = (0, 1) if number % 2 else (1, 0)
        for turn in turns:
            found[turn].append(our_round(asked) if turn else aiperf_round(asked, scratch))
        sys.stderr.write(f"round {number + 1} of {count}\n")
    return found


def _known(tokens: int) -> Figures:
    whole = FIRST_MS + (tokens - 1) * BETWEEN_MS
    truth = {"time_to_first_token": FIRST_MS, "inter_token_latency": BETWEEN_MS, "request_latency": whole}
    return {f"{key} {one}": value for key, value in truth.items() for one in ("avg", "p50", "p95")}


def _page(given: argparse.Namespace, agreed: dict[str, Agreement], known: Figures) -> str:
    load = os.getloadavg()[0]
    lines = [
        f"# AIPerf and `attendant load` side by side, {time.strftime('%Y-%m-%d %H:%M', time.gmtime())} UTC",
        "",
        f"    python {' '.join(sys.argv)}",
        "",
        f"- server: {_name(given)}{', on cores of its own' if given.apart else ''}",
        f"- asked: {given.gateway or given.model}, /v1/{given.endpoint}, streamed, "
        f"{f'{given.rate:g} a second' if given.rate else f'{given.concurrency} at once'}, {given.requests} "
        f"requests of {given.tokens} tokens a round, {given.rounds} rounds in turns",
        f"- AIPerf 0.13.0, one worker; {platform.machine()}, {os.cpu_count()} cores, load {load:.1f} at the end",
        "",
        "Milliseconds and rates a second, medians of the rounds; noise: of the difference of one round of each "
        "(benchmarks/aiperf/agreement.py).",
        "",
        f"| figure | {'truth | ' if known else ''}AIPerf | ours | difference | noise | agree |",
        f"|---|{'---:|' if known else ''}---:|---:|---:|---:|---|",
    ]
    for name, one in agreed.items():
        truth = f"{known.get(name, ''):{'.2f' if name in known else ''}} | " if known else ""
        cells = f"{one.aiperf:.2f} | {one.ours:.2f} | {one.difference:+.1%} | {one.noise:.2f}"
        lines.append(f"| {name} | {truth}{cells} | {one.word if _is_judged(name, given) else 'not judged'} |")
    words = [one.word for name, one in agreed.items() if _is_judged(name, given)]
    told = f"{words.count('yes')} of {len(words)} agree within the noise, {words.count('no')} do not"
    noisy = f", {words.count('too noisy')} were too noisy to tell" if "too noisy" in words else ""
    own = (
        "Not judged: what holds the tool's own pause between two requests, or is given."
        if len(words) < len(agreed)
        else ""
    )
    return "\n".join([*lines, "", f"{told}{noisy}. {own}".rstrip(), ""])


def _name(given: argparse.Namespace) -> str:
    if given.gateway:
        return "the gateway, before a Triton with one model"
    return given.url or f"known times, first token {FIRST_MS:g} ms, then one each {BETWEEN_MS:g} ms"


if __name__ == "__main__":
    sys.exit(main())
