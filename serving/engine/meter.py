"""What an engine counts and measures; a server's own metrics are fed from here."""

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


@dataclass(slots=True)
class Histogram:
    """Times in seconds.

    Attributes:
        counts: for each bucket of :data:`BOUNDS_S`, and one more for what is longer, how many times.
        total_s: their sum.
    """

    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS_S) + 1))
    total_s: float = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(BOUNDS_S, seconds)] += 1
        self.total_s += seconds


@dataclass(slots=True)
class Meter:
    """Counts since the start, and what is held now.

    Attributes:
        finished: requests answered to the end.
        cancelled: requests that were cancelled.
        rejected: requests refused because too many waited.
        deadline_exceeded: requests whose deadline passed.
        failed: requests that ended with another error.
        tokens: of answers.
        prompt_tokens: of prompts that were admitted.
        prefix_tokens: those of them that the prefix cache held.
        drafted: tokens proposed by prompt lookup.
        accepted: those of them that were right.
        steps: runs of the decoder over the rows that are decoded token by token.
        active: slots that hold a sequence.
        waiting: requests without a slot.
        cached_tokens: positions of the KV cache that hold a token.
        cache_usage: the same as a share of all positions; of a cache without positions, of its rows.
        first_token_s: from a request's arrival to its first token.
        between_tokens_s: between two tokens of a request.
        queue_s: from a request's arrival to its prefill.
        prefill_s: from the start of its prefill to its first token.
        decode_s: from its first token to its last.
        e2e_s: from a request's arrival to its last token.
    """

    finished: int = 0
    cancelled: int = 0
    rejected: int = 0
    deadline_exceeded: int = 0
    failed: int = 0
    tokens: int = 0
    prompt_tokens: int = 0
    prefix_tokens: int = 0
    drafted: int = 0
    accepted: int = 0
    steps: int = 0
    active: int = 0
    waiting: int = 0
    cached_tokens: int = 0
    cache_usage: float = 0.0

    first_token_s: Histogram = field(default_factory=Histogram)
    between_tokens_s: Histogram = field(default_factory=Histogram)
    queue_s: Histogram = field(default_factory=Histogram)
    prefill_s: Histogram = field(default_factory=Histogram)
    decode_s: Histogram = field(default_factory=Histogram)
    e2e_s: Histogram = field(default_factory=Histogram)


PREFIX = "attendant_"
REQUESTS = ("requests_total", "requests that ended, by how; `rejected`: the queue was full")
ENDINGS = {
    "finished": "completed",
    "cancelled": "cancelled",
    "rejected": "rejected",
    "deadline_exceeded": "deadline_exceeded",
    "failed": "error",
}
"""Count of the meter → how such requests ended, the label ``finished_reason`` of one counter."""
COUNTERS = {
    "tokens": ("generation_tokens_total", "tokens of answers, without end tokens; of beams those of the answers given"),
    "prompt_tokens": ("prompt_tokens_total", "tokens of admitted prompts; a translator's prompt is its start token"),
    "prefix_tokens": ("prefix_cache_hit_tokens_total", "tokens of prompts that the prefix cache held"),
    "drafted": ("spec_decode_num_draft_tokens_total", "tokens that prompt lookup proposed"),
    "accepted": ("spec_decode_num_accepted_tokens_total", "proposed tokens that were right"),
    "steps": ("decode_steps_total", "runs of the decoder for new tokens, prefills apart"),
}
GAUGES = {
    "active": (
        "num_requests_running",
        "sequences that are prefilled or decoded; a request of several answers has as many",
    ),
    "waiting": ("num_requests_waiting", "requests in the queue"),
    "cache_usage": (
        "kv_cache_usage_ratio",
        "share of the KV cache's positions that hold a token; those of a prompt count for each sample or beam",
    ),
}
SIZES = {
    "slots": ("max_num_seqs", "sequences that are decoded at once; fixed"),
    "cache_bytes": ("kv_cache_bytes", "memory of the KV cache; fixed"),
}
"""Attribute of the engine itself → its metric."""
TIMES = {
    "first_token_s": (
        "time_to_first_token_seconds",
        "seconds from a request's arrival to its first token; of beams to their answer",
    ),
    "between_tokens_s": (
        "inter_token_latency_seconds",
        "seconds between two tokens of a request, of whichever of its samples",
    ),
    "queue_s": ("request_queue_time_seconds", "seconds from a request's arrival to its prefill"),
    "prefill_s": (
        "request_prefill_time_seconds",
        "seconds from the start of its prefill to its first token; of beams to their answer",
    ),
    "decode_s": ("request_decode_time_seconds", "seconds from a request's first token to its last"),
    "e2e_s": ("e2e_request_latency_seconds", "seconds from a request's arrival to its last token"),
}


class MetricRow(NamedTuple):
    """A metric as a table has it: its name, type, labels and meaning."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    labels: tuple[str, ...]
    help: str


def engine_metric_rows() -> list[MetricRow]:
    """Every metric that an engine registers."""
    model = ("model",)
    return [
        *(MetricRow(PREFIX + name, "gauge", model, meaning) for name, meaning in (GAUGES | SIZES).values()),
        MetricRow(PREFIX + REQUESTS[0], "counter", ("model", "finished_reason"), REQUESTS[1]),
        *(MetricRow(PREFIX + name, "counter", model, meaning) for name, meaning in COUNTERS.values()),
        *(MetricRow(PREFIX + name, "histogram", model, meaning) for name, meaning in TIMES.values()),
    ]
