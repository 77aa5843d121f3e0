"""Both tools: one round of AIPerf, one of ours, of the same load and in AIPerf's definitions.

Both count a request from when it is handed to their HTTP client (AIPerf: start_perf_ns, set behind its session's
making; ours: sent_s), its first token from the event with the first content, its end from the last one.

    pause    from one request's end to the next one's start: what a closed loop's rate has in it of the tool itself

Source: AIPerf 0.13.0, transports/aiohttp_client.py, metrics/types/{ttft,request_latency}_metric.py.
"""

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from attendant.sampling_params import SamplingParams
from benchmarks.harness.machine import ROOT
from clients.load.arrivals import ClosedLoop, Constant
from clients.load.record import LoadRun, RequestOutcome, RequestRecord
from clients.load.run import run_load
from clients.load.scenario import Endpoint, Inputs, Scenario, Target, Workload

AIPERF = ROOT / "build" / "aiperf" / "bin" / "aiperf"
STATISTICS = ("avg", "p50", "p95")
LATENCIES = ("time_to_first_token", "inter_token_latency", "request_latency")
RATES = ("request_throughput", "output_token_throughput")
PAUSE = "pause between requests p50"
PROMPTS = tuple(f"once upon a time number {number} there was" for number in range(16))
UNKNOWN = "?"
Figures = dict[str, float]
Times = dict[str, list[float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamedLoad:
    """Streamed answers, in a closed loop or at even times.

    Attributes:
        url: of the server, without /v1.
        tokenizer: folder of a Hugging Face tokenizer, for AIPerf alone.
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


def write_tokenizer(source: Path | None, folder: Path) -> Path:
    """A folder that AIPerf takes for a Hugging Face tokenizer; of single words if there is none: the server counts."""
    folder.mkdir(parents=True)
    if source is not None:
        shutil.copy(source / "tokenizer.json", folder)
    else:
        words = Tokenizer(WordLevel({UNKNOWN: 0, "once": 1, "upon": 2}, unk_token=UNKNOWN))
        words.pre_tokenizer = Whitespace()
        words.save(str(folder / "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": UNKNOWN}
    (folder / "tokenizer_config.json").write_text(json.dumps(config) + "\n", encoding="utf-8")
    return folder


def run_aiperf(load: StreamedLoad, scratch: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """One round: its figures, and the records of requests behind its warm-up."""
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    prompts = scratch / "prompts.jsonl"
    prompts.write_text("".join(json.dumps({"text": prompt}) + "\n" for prompt in PROMPTS), encoding="utf-8")
    # HF_HUB_OFFLINE makes AIPerf refuse a tokenizer's folder (HFValidationError).
    environment = {name: value for name, value in os.environ.items() if name != "HF_HUB_OFFLINE"}  # noqa: TID251
    command = aiperf_command(load, prompts, scratch)
    ran = subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment, check=False)
    export = next(scratch.rglob("profile_export_aiperf.json"), None)
    if ran.returncode or export is None:
        raise RuntimeError(f"aiperf ended with {ran.returncode}: {(ran.stdout + ran.stderr)[-2000:]}")
    figures = json.loads(export.read_text(encoding="utf-8"))
    errors = (figures.get("error_request_count") or {}).get("avg", 0)
    if errors or figures["request_count"]["avg"] != load.requests:
        raise RuntimeError(f"aiperf: {figures['request_count']['avg']} answers, {errors} errors of {load.requests}")
    lines = next(scratch.rglob("profile_export.jsonl")).read_text(encoding="utf-8").splitlines()
    records = [one for one in map(json.loads, lines) if one["metadata"]["benchmark_phase"] == "profiling"]
    return figures, records


def aiperf_command(load: StreamedLoad, prompts: Path, scratch: Path) -> list[str]:
    extra = {"max_tokens": load.tokens, "min_tokens": load.tokens}
    arrivals = ["--concurrency", str(load.concurrency)]
    if load.rate:
        arrivals = ["--request-rate", str(load.rate), "--arrival-pattern", "constant"]
    return [
        *(str(AIPERF), "profile", "--model", load.model, "--url", load.url, "--endpoint-type", load.endpoint),
        *("--streaming", "--tokenizer", str(load.tokenizer), "--use-server-token-count", "--ui-type", "none"),
        *("--input-file", str(prompts), "--custom-dataset-type", "single_turn"),
        *("--dataset-sampling-strategy", "sequential", "--extra-inputs", json.dumps(extra)),
        *(*arrivals, "--request-count", str(load.requests)),
        *("--warmup-request-count", str(load.concurrency * 2), "--workers-max", "1"),
        *("--artifact-dir", str(scratch), "--no-gpu-telemetry", "--no-server-metrics"),
    ]


def aiperf_round(load: StreamedLoad, scratch: Path) -> Figures:
    found, records = run_aiperf(load, scratch)
    figures = {f"{key} {one}": found[key][one] for key in LATENCIES for one in STATISTICS}
    spans = [one["metadata"] for one in records]
    spans_ms = [(one["request_start_ns"] / 1e6, one["request_end_ns"] / 1e6) for one in spans]
    return figures | {key: found[key]["avg"] for key in RATES} | pause(spans_ms, load)


def our_round(load: StreamedLoad) -> Figures:
    """Behind a warm-up of as many requests as AIPerf's."""
    asyncio.run(run_load(our_scenario(load, requests=load.concurrency * 2)))
    run: LoadRun = asyncio.run(run_load(our_scenario(load, requests=load.requests)))
    records = [record for record in run.records if record.outcome is RequestOutcome.OK]
    if len(records) != load.requests:
        raise RuntimeError(f"ours: {len(records)} answers of {load.requests}: {run.records[-1].error}")
    figures = {
        f"{key} {one}": float(np.mean(values) if one == "avg" else np.percentile(values, float(one[1:])))
        for key, values in our_times_ms(records).items()
        for one in STATISTICS
    }
    seconds = max(one.responses_s[-1] for one in records) - min(one.sent_s for one in records)
    tokens = sum(sum(one.tokens) for one in records)
    rates = {"request_throughput": len(records) / seconds, "output_token_throughput": tokens / seconds}
    return figures | rates | pause([(1e3 * one.sent_s, 1e3 * one.ended_s) for one in records], load)


def our_times_ms(records: Sequence[RequestRecord]) -> Times:
    """AIPerf's definitions: a request ends with its last response that has content, and its first brought one token."""
    return {
        "time_to_first_token": [1e3 * (one.responses_s[0] - one.sent_s) for one in records],
        "inter_token_latency": [
            1e3 * (one.responses_s[-1] - one.responses_s[0]) / (sum(one.tokens) - 1) for one in records
        ],
        "request_latency": [1e3 * (one.responses_s[-1] - one.sent_s) for one in records],
    }


def our_scenario(load: StreamedLoad, requests: int | None = None, duration_s: float | None = None) -> Scenario:
    """So many requests, or for so long."""
    workload = Workload(
        name="streamed",
        model=load.model,
        endpoint=load.endpoint,
        inputs=Inputs(kind="texts", texts=PROMPTS),
        decoding=SamplingParams(max_tokens=load.tokens, min_tokens=load.tokens),
    )
    return Scenario(
        name="beside AIPerf",
        target=Target(transport="openai", address=f"{load.url}/v1"),
        arrivals=Constant(rate=load.rate) if load.rate else ClosedLoop(concurrency=load.concurrency),
        workloads=(workload,),
        requests=requests,
        duration_s=duration_s,
    )


def pause(spans_ms: list[tuple[float, float]], load: StreamedLoad) -> Figures:
    if load.rate or load.concurrency > 1:
        return {}
    pairs = pairwise(sorted(spans_ms))
    return {PAUSE: float(np.median([begins - ended for (_, ended), (begins, _) in pairs]))}
