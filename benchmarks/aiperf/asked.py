"""What both tools ask, and what both find: one round of AIPerf, one of ours, in AIPerf's definitions.

Both count a request from when it is handed to their HTTP client (AIPerf: start_perf_ns, set behind its session's
making; ours: sent_s), its first token from the event with the first content, its end from the last one.

    pause    from one request's end to the next one's start: what a closed loop's rate has in it of the tool itself

Source: AIPerf 0.13.0, transports/aiohttp_client.py, metrics/types/{ttft,request_latency}_metric.py.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from attendant.sampling_params import SamplingParams
from clients.load.arrivals import ClosedLoop, Constant
from clients.load.record import LoadRun, Outcome
from clients.load.run import run_load
from clients.load.scenario import Endpoint, Inputs, Scenario, Target, Workload

ROOT = Path(__file__).parents[2]
AIPERF = ROOT / "build" / "aiperf" / "bin" / "aiperf"
STATISTICS = ("avg", "p50", "p95")
LATENCIES = ("time_to_first_token", "inter_token_latency", "request_latency")
RATES = ("request_throughput", "output_token_throughput")
PAUSE = "pause between requests p50"
Figures = dict[str, float]
PROMPTS = tuple(f"once upon a time number {number} there was" for number in range(16))


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Streamed answers, in a closed loop or at even times.

    Attributes:
        url: of the server, without /v1.
        model: its name.
        tokenizer: folder of a Hugging Face tokenizer, for AIPerf alone.
        endpoint: of the protocol.
        concurrency: requests at once.
        rate: requests a second at even distances; a closed loop if 0.
        requests: in a round.
        tokens: of each answer.
    """

    url: str
    model: str
    tokenizer: Path
    endpoint: Endpoint
    concurrency: int
    requests: int
    tokens: int
    rate: float = 0.0


def aiperf_round(asked: Asked, scratch: Path) -> Figures:
    """One round of AIPerf.

    Raises:
        RuntimeError: it fails.
    """
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    prompts = scratch / "prompts.jsonl"
    prompts.write_text("".join(json.dumps({"text": prompt}) + "\n" for prompt in PROMPTS), encoding="utf-8")
    ran = subprocess.run(
        aiperf_command(asked, prompts, scratch),
        capture_output=True,
        text=True,
        timeout=600,
        env=_environment(),
        check=False,
    )
    written = next(scratch.rglob("profile_export_aiperf.json"), None)
    if ran.returncode or written is None:
        raise RuntimeError(f"aiperf ended with {ran.returncode}: {(ran.stdout + ran.stderr)[-2000:]}")
    lines = next(scratch.rglob("profile_export.jsonl")).read_text(encoding="utf-8").splitlines()
    return _of_aiperf(json.loads(written.read_text(encoding="utf-8")), list(map(json.loads, lines)), asked)


def _environment() -> dict[str, str]:
    # HF_HUB_OFFLINE makes AIPerf refuse a tokenizer's folder (HFValidationError).
    given = dict(os.environ)  # noqa: TID251
    given.pop("HF_HUB_OFFLINE", None)
    return given


def aiperf_command(asked: Asked, prompts: Path, scratch: Path) -> list[str]:
    """The command of a round."""
    extra = {"max_tokens": asked.tokens, "min_tokens": asked.tokens}
    return [
        *(str(AIPERF), "profile", "--model", asked.model, "--url", asked.url, "--endpoint-type", asked.endpoint),
        *("--streaming", "--tokenizer", str(asked.tokenizer), "--use-server-token-count", "--ui-type", "none"),
        *("--input-file", str(prompts), "--custom-dataset-type", "single_turn"),
        *("--dataset-sampling-strategy", "sequential", "--extra-inputs", json.dumps(extra)),
        *_load(asked),
        *("--warmup-request-count", str(asked.concurrency * 2), "--workers-max", "1"),
        *("--artifact-dir", str(scratch), "--no-gpu-telemetry", "--no-server-metrics"),
    ]


def _load(asked: Asked) -> list[str]:
    count = ["--request-count", str(asked.requests)]
    if asked.rate:
        return ["--request-rate", str(asked.rate), "--arrival-pattern", "constant", *count]
    return ["--concurrency", str(asked.concurrency), *count]


def our_round(asked: Asked) -> Figures:
    """One round of ours, behind a warm-up of as many requests as AIPerf's."""
    asyncio.run(run_load(our_scenario(asked, requests=asked.concurrency * 2)))
    return _of_ours(asyncio.run(run_load(our_scenario(asked, requests=asked.requests))), asked)


def our_scenario(asked: Asked, requests: int | None = None, duration_s: float | None = None) -> Scenario:
    """The same, as ours is told it: so many requests, or for so long."""
    workload = Workload(
        name="known",
        model=asked.model,
        endpoint=asked.endpoint,
        inputs=Inputs(kind="texts", texts=PROMPTS),
        decoding=SamplingParams(max_tokens=asked.tokens, min_tokens=asked.tokens),
    )
    return Scenario(
        name="beside AIPerf",
        target=Target(transport="openai", address=f"{asked.url}/v1"),
        arrivals=Constant(rate=asked.rate) if asked.rate else ClosedLoop(concurrency=asked.concurrency),
        workloads=(workload,),
        requests=requests,
        duration_s=duration_s,
    )


def _of_aiperf(told: dict[str, Any], records: list[dict[str, Any]], asked: Asked) -> Figures:
    errors = (told.get("error_request_count") or {}).get("avg", 0)
    if errors or told["request_count"]["avg"] != asked.requests:
        raise RuntimeError(f"aiperf: {told['request_count']['avg']} answers, {errors} errors of {asked.requests}")
    figures = {f"{key} {one}": told[key][one] for key in LATENCIES for one in STATISTICS}
    of = [one["metadata"] for one in records if one["metadata"]["benchmark_phase"] == "profiling"]
    times_ms = [(one["request_start_ns"] / 1e6, one["request_end_ns"] / 1e6) for one in of]
    return figures | {key: told[key]["avg"] for key in RATES} | _pause(times_ms, asked)


def _pause(times_ms: list[tuple[float, float]], asked: Asked) -> Figures:
    if asked.rate or asked.concurrency > 1:
        return {}
    pairs = pairwise(sorted(times_ms))
    return {PAUSE: float(np.median([begins - ended for (_, ended), (begins, _) in pairs]))}


def _of_ours(run: LoadRun, asked: Asked) -> Figures:
    records = [record for record in run.records if record.outcome is Outcome.OK]
    if len(records) != asked.requests:
        raise RuntimeError(f"ours: {len(records)} answers of {asked.requests}: {run.records[-1].error}")
    # AIPerf's definitions: a request ends with its last response that has content, and its first brought one token.
    columns = {
        "time_to_first_token": [one.responses_s[0] - one.sent_s for one in records],
        "inter_token_latency": [(one.responses_s[-1] - one.responses_s[0]) / (sum(one.tokens) - 1) for one in records],
        "request_latency": [one.responses_s[-1] - one.sent_s for one in records],
    }
    seconds = max(one.responses_s[-1] for one in records) - min(one.sent_s for one in records)
    figures = {f"{key} {one}": 1e3 * _statistic(values, one) for key, values in columns.items() for one in STATISTICS}
    tokens = sum(sum(one.tokens) for one in records)
    rates = {"request_throughput": len(records) / seconds, "output_token_throughput": tokens / seconds}
    return figures | rates | _pause([(1e3 * one.sent_s, 1e3 * one.ended_s) for one in records], asked)


def _statistic(values: list[float], name: str) -> float:
    return float(np.mean(values) if name == "avg" else np.percentile(values, float(name[1:])))
