r"""AIPerf and our load generator ask one server at the same time: do both see the same server then?

    python benchmarks/aiperf/together.py --gateway stdlib-lm [--apart]

    alone      ours asks, and nobody else
    ours       ours, of requests that were under way while AIPerf asked
    AIPerf     its own, of the same time

If AIPerf alone finds a slower server than ours alone, this tells why: a server that is slower while AIPerf runs is slow
for ours too; a clock that runs differently shows in AIPerf's figures only.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.aiperf.asked import Asked, aiperf_round, our_scenario  # noqa: E402
from benchmarks.aiperf.servers import gateway_over, on_cores  # noqa: E402
from benchmarks.aiperf.tokenizer import tokenizer_folder  # noqa: E402
from benchmarks.generation.written import table  # noqa: E402
from clients.load.record import RequestRecord  # noqa: E402
from clients.load.run import run_load  # noqa: E402

CORES = sorted(os.sched_getaffinity(0))
AHEAD_S = 5.0
FIGURES = ("time_to_first_token", "inter_token_latency", "request_latency")
Times = dict[str, list[float]]


def main() -> None:
    """Measure, print, and write."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("--gateway", default="stdlib-lm", help="a checkpoint: ask a gateway before a Triton over it")
    parser.add_argument("--apart", action="store_true", help="server and tools on cores of their own")
    parser.add_argument("--requests", type=int, default=60, help="of AIPerf in a round")
    parser.add_argument("--tokens", type=int, default=48, help="of each answer")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, help="a Markdown file")
    given = parser.parse_args()
    half = len(CORES) // 2
    servers, tools = (CORES[:half], CORES[half:]) if given.apart else (CORES, CORES)
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        with on_cores(set(servers)):
            url, tokenizer = stack.enter_context(gateway_over(given.gateway))
        stack.enter_context(on_cores(set(tools)))
        asked = Asked(
            url=url,
            model=given.gateway,
            tokenizer=tokenizer_folder(tokenizer, scratch / "tokenizer"),
            endpoint="completions",
            concurrency=1,
            requests=given.requests,
            tokens=given.tokens,
        )
        found = [asyncio.run(together(asked, scratch / "aiperf")) for _ in range(given.rounds)]
    page = report(found, given)
    sys.stdout.write(page)
    if given.out is not None:
        given.out.write_text(page, encoding="utf-8")


async def together(asked: Asked, scratch: Path) -> tuple[Times, Times, Times]:
    """One round: ours alone, ours while AIPerf asked, AIPerf's own; milliseconds of each request."""
    seen: list[tuple[float, RequestRecord]] = []
    scenario = our_scenario(asked, duration_s=120.0)
    run = asyncio.create_task(run_load(scenario, lambda one: seen.append((time.time() - one.ended_s, one))))
    await asyncio.sleep(AHEAD_S)
    called_s = time.time()
    await asyncio.to_thread(aiperf_round, asked, scratch)
    run.cancel()
    with suppress(asyncio.CancelledError):
        await run
    theirs = [json.loads(line) for line in next(scratch.rglob("profile_export.jsonl")).read_text().splitlines()]
    theirs = [one for one in theirs if one["metadata"]["benchmark_phase"] == "profiling"]
    began_s = min(began for began, _ in seen)
    from_s = min(one["metadata"]["request_start_ns"] for one in theirs) / 1e9
    to_s = max(one["metadata"]["request_end_ns"] for one in theirs) / 1e9
    at_once = [one for _, one in seen if from_s < began_s + one.sent_s and began_s + one.ended_s < to_s]
    alone = [one for _, one in seen if one.sent_s > 1.0 and began_s + one.ended_s < called_s]
    return _ours(alone), _ours(at_once), {key: [one["metrics"][key]["value"] for one in theirs] for key in FIGURES}


def report(found: Sequence[tuple[Times, Times, Times]], given: argparse.Namespace) -> str:
    """Markdown."""
    rows = []
    for key in FIGURES:
        rounds = [[median(who[key]) for who in one] for one in found]
        rows.append(
            [
                key,
                *(
                    f"{median(column):.2f} ({min(column):.2f} to {max(column):.2f})"
                    for column in zip(*rounds, strict=True)
                ),
            ]
        )
    return "\n".join(
        [
            f"# AIPerf and `attendant load` at the same time, {time.strftime('%Y-%m-%d %H:%M', time.gmtime())} UTC",
            "",
            f"    python {' '.join(sys.argv)}",
            "",
            f"One gateway before a Triton over {given.gateway}{', on cores of its own' if given.apart else ''}; each "
            f"tool streams {given.tokens} tokens, one request at a time; {os.cpu_count()} cores, {given.rounds} "
            "rounds. Milliseconds, the median of the rounds' medians, and between which they lay.",
            "",
            table(["figure", "ours, alone", "ours, while AIPerf asks", "AIPerf, at that time"], rows),
            "",
        ]
    )


def _ours(records: Sequence[RequestRecord]) -> Times:
    return {
        "time_to_first_token": [1e3 * (one.responses_s[0] - one.sent_s) for one in records],
        "inter_token_latency": [
            1e3 * (one.responses_s[-1] - one.responses_s[0]) / (sum(one.tokens) - 1) for one in records
        ],
        "request_latency": [1e3 * (one.responses_s[-1] - one.sent_s) for one in records],
    }


if __name__ == "__main__":
    main()
