"""What the answers of a load are worth: each beside the same request alone, and the counts of both sides."""

import urllib.request
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.soak.mix import MixedRequest
from benchmarks.soak.reference import Answers, ReferenceEngine, agrees
from benchmarks.soak.streams import StreamRecord
from serving.triton.server.process import TritonServer

GAUGES = ("num_requests_running", "num_requests_waiting", "kv_cache_usage_ratio")
"""What is 0 where nothing is under way."""
SHOWN = (
    *("completed", "cancelled", "deadline_exceeded", "error", "rejected"),
    *("generation_tokens", "prompt_tokens", "prefix_cache_hit_tokens", "decode_steps"),
    *("spec_decode_num_draft_tokens", "spec_decode_num_accepted_tokens"),
)
Counts = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A served answer that is not the one computed alone.

    Attributes:
        kind: of the request's options.
        position: of the first token that differs; None where only texts or ends do.
        gap: of the two best logits there, without what the options change in them.
        drift: how far two runs' logits may lie apart.
        explained_by: the number of the run with drifting logits that gave the served answer; None if none did.
    """

    request: int
    model: str
    kind: str
    position: int | None
    gap: float | None
    drift: float
    explained_by: int | None
    options: str


def compare(
    requests: Sequence[MixedRequest],
    records: Sequence[StreamRecord],
    prompts: Mapping[str, Sequence[Any]],
    references: Mapping[str, ReferenceEngine],
) -> tuple[Counter[str], list[Difference]]:
    """How many answers were compared as a whole, in part, or not at all, as nothing had come; and the differences."""
    counts, differences = Counter[str](), list[Difference]()
    for number, (one, record) in enumerate(zip(requests, records, strict=False)):
        if record.outcome != "failed" and not record.answers:
            counts["nothing came before it was cancelled"] += 1
            continue
        reference, prompt = references[one.model], prompts[one.model][one.prompt]
        own = reference.answers(prompt, one.options, f"{one.prompt} {one.options}")
        whole = record.outcome == "completed"
        if isinstance(own, str) or record.outcome == "failed":
            counts["refused, and so alone" if isinstance(own, str) and record.outcome == "failed" else "failed"] += 1
            continue
        counts["whole answers" if whole else "beginnings of answers"] += 1
        if not agrees(record.answers, own, whole):
            differences.append(describe(number, one, record, own, prompt, reference))
    return counts, differences


def describe(
    number: int, one: MixedRequest, record: StreamRecord, own: Answers, prompt: Any, reference: ReferenceEngine
) -> Difference:
    position, gap = None, None
    for candidate, answer in record.answers.items():
        mine = own[candidate].tokens if candidate in own else []
        place = next((at for at, pair in enumerate(zip(answer.tokens, mine, strict=False)) if pair[0] != pair[1]), None)
        if place is not None:
            position, gap = place, reference.gap(prompt, one.options, mine[:place])
            break
    return Difference(
        request=number,
        model=one.model,
        kind=one.kind,
        position=position,
        gap=gap,
        drift=reference.drift,
        explained_by=reference.explains(prompt, one.options, record.answers, record.outcome == "completed"),
        options=str(one.options),
    )


def read_counts(server: TritonServer) -> dict[str, dict[str, float]]:
    """What every engine has counted: model → count, without ``attendant_`` and ``_total``, or why it ended → value."""
    with urllib.request.urlopen(f"http://{server.endpoints.metrics}/metrics", timeout=10) as page:  # http, of this file  # nosec B310
        lines = page.read().decode().splitlines()
    counts: dict[str, dict[str, float]] = {}
    for line in lines:
        name, brace, rest = line.partition("{")
        if brace and name.startswith("attendant_") and 'le="' not in rest:
            model = rest.partition('model="')[2].partition('"')[0]
            reason = rest.partition('finished_reason="')[2].partition('"')[0]
            count = reason or name.removeprefix("attendant_").removesuffix("_total")
            counts.setdefault(model, {})[count] = float(rest.split()[-1])
    return counts


def compare_counts(
    records: Mapping[str, Sequence[StreamRecord]], before: Counts, after: Counts
) -> dict[str, dict[str, Any]]:
    """For each model what server and client counted, and what is wrong with it.

    An answer can be complete before its cancelling arrives: the server then counts it as completed.
    """
    table = {}
    for model, of_model in records.items():
        server = {name: after[model][name] - before[model].get(name, 0) for name in after[model]}
        client: Counter[str] = Counter(one.outcome for one in of_model)
        crossed = server["completed"] - client["completed"]
        tokens = sum(len(answer.tokens) for one in of_model for answer in one.answers.values())
        ended = server["completed"] + server["cancelled"] + server["deadline_exceeded"]
        wrong = {
            "every request is counted once": len(of_model) != ended + client["failed"],
            "completed are those answered and those whose cancelling came too late": not 0
            <= crossed
            <= client["cancelled"],
            "cancelled are the others that the client cancelled": server["cancelled"] != client["cancelled"] - crossed,
            "deadlines exceeded": server["deadline_exceeded"] != client["deadline exceeded"],
            "at least the tokens that came were counted": server["generation_tokens"] < tokens,
            "slots are free": any(after[model][name] for name in GAUGES),
        }
        table[model] = {
            "client": {**client, "tokens": tokens},
            "server": {name: server[name] for name in SHOWN},
            "wrong": [name for name, is_wrong in wrong.items() if is_wrong],
        }
    return table
