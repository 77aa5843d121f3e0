"""What the answers of a load are worth: each beside the same request alone, and the counts of both sides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.generation.alone import Alone, Answers, agrees
from benchmarks.generation.asking import Heard
from benchmarks.generation.mix import Asked

_ENDS = ("completed", "cancelled", "deadline_exceeded", "error", "rejected")
HELD = ("num_requests_running", "num_requests_waiting", "kv_cache_usage_ratio")
"""What is 0 where nothing is under way."""
SHOWN = (
    *(*_ENDS, "generation_tokens", "prompt_tokens", "prefix_cache_hit_tokens", "decode_steps"),
    *("spec_decode_num_draft_tokens", "spec_decode_num_accepted_tokens"),
)
Counts = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A served answer that is not the one computed alone.

    Attributes:
        request: which of the load.
        model: its name.
        kind: of its options.
        position: of the first token that differs; None where only texts or ends do.
        gap: of the two best logits there, without what the options change in them.
        drift: how far two runs' logits may lie apart.
        explained_by: the number of the run with drifting logits that gave the served answer; None if none did.
        options: of the request.
    """

    request: int
    model: str
    kind: str
    position: int | None
    gap: float | None
    drift: float
    explained_by: int | None
    options: str


def compared(
    requests: Sequence[Asked], heard: Sequence[Heard], subjects: Mapping[str, Sequence[Any]], alone: Mapping[str, Alone]
) -> tuple[Counter[str], list[Difference]]:
    """Every answer beside the one computed alone.

    Returns:
        How many were compared as a whole, in part, or not at all, as nothing had come; and the differences.
    """
    counts, differences = Counter[str](), list[Difference]()
    for number, (one, said) in enumerate(zip(requests, heard, strict=False)):
        if said.outcome != "failed" and not said.answers:
            counts["nothing came before it was given up"] += 1
            continue
        own = alone[one.model].answers(subjects[one.model][one.subject], one.options, _key(one))
        whole = said.outcome == "answered"
        if isinstance(own, str) or said.outcome == "failed":
            counts["refused, and so alone" if isinstance(own, str) and said.outcome == "failed" else "failed"] += 1
            continue
        counts["whole answers" if whole else "beginnings of answers"] += 1
        if not agrees(said.answers, own, whole):
            differences.append(_difference(number, one, said, own, subjects[one.model][one.subject], alone[one.model]))
    return counts, differences


def counted_alike(heard: Mapping[str, Sequence[Heard]], before: Counts, after: Counts) -> dict[str, dict[str, Any]]:
    """For each model what server and client counted, and what is wrong with it.

    An answer can be complete before its taking back arrives: the server then counts it as finished.
    """
    table = {}
    for model, said in heard.items():
        server = {name: after[model][name] - before[model].get(name, 0) for name in after[model]}
        client = Counter(one.outcome for one in said)
        crossed = server["completed"] - client["answered"]
        tokens = sum(len(answer.tokens) for one in said for answer in one.answers.values())
        wrong = {
            "every request is counted once": len(said)
            != server["completed"] + server["cancelled"] + server["deadline_exceeded"] + client["failed"],
            "finished are those answered and those whose taking back came too late": not 0
            <= crossed
            <= client["taken back"],
            "cancelled are the others taken back": server["cancelled"] != client["taken back"] - crossed,
            "late": server["deadline_exceeded"] != client["late"],
            "at least the tokens that came were counted": server["generation_tokens"] < tokens,
            "slots are free": any(after[model][name] for name in HELD),
        }
        table[model] = {
            "client": {**client, "tokens": tokens},
            "server": {name: server[name] for name in SHOWN},
            "wrong": [name for name, is_wrong in wrong.items() if is_wrong],
        }
    return table


def _key(one: Asked) -> str:
    return f"{one.subject} {one.options}"


def _difference(number: int, one: Asked, said: Heard, own: Answers, subject: Any, alone: Alone) -> Difference:
    position, gap = None, None
    for candidate, answer in said.answers.items():
        mine = own[candidate].tokens if candidate in own else []
        place = next((at for at, pair in enumerate(zip(answer.tokens, mine, strict=False)) if pair[0] != pair[1]), None)
        if place is not None:
            position, gap = place, alone.gap(subject, one.options, mine[:place])
            break
    explained = alone.explains(subject, one.options, said.answers, said.outcome == "answered")
    return Difference(
        request=number,
        model=one.model,
        kind=one.kind,
        position=position,
        gap=gap,
        drift=alone.drift,
        explained_by=explained,
        options=str(one.options),
    )
