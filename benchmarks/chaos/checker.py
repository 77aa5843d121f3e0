"""Judges a run by its history alone: pure functions from a history to what is wrong with it.

wrong token      an answer is not that of the reference, or is not a beginning of it where it did not end well
duplicate token  tokens came twice                     missing token   tokens were left out
token after end  something came after the last response
not sent         an answer to a request that nobody sent, or of another request
lost             a request that did not end, or broke off without an error
silent           nothing was heard of a request for too long
failed           a request failed that had to be answered
late end         requests in flight at a dead worker failed too late
not back         the target answers too late, or never
wrong code       an error that the scenario does not allow
ended            the server ended, or not as it should, or too late
process died     one that had to live
left over        processes, regions, folders, ports
grown            memory or descriptors
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any

from benchmarks.chaos.history import Event, History, RequestHistory, RoundHistory

MOST_GROWTH_MB = 150.0
"""Of one process between quiet moments; caches fill up to 64 MiB, and allocators keep what they had at most."""
MOST_DESCRIPTORS = 24
"""More than at first, in a quiet moment: connections that are being closed."""
BARE_S = 1.0
"""Triton answers what is sent to a dead worker later than this by itself."""
TAKEN_S = 0.25
"""How long before a fault a request must have been sent to have been taken: eight traffics share two cores."""
NO_END = ("", "cut", "silent")


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One promise that was not kept.

    Attributes:
        rule: of those above.
        round: its number; -1 outside of all.
        traffic: of the request; empty if all of the round are meant.
        found: in words.
    """

    rule: str
    found: str
    round: int = -1
    traffic: str = ""
    request: str = ""


def check(history: History) -> list[Violation]:
    """Everything that is wrong."""
    found = [violation for request in history.requests.values() for violation in check_request(request, history)]
    for one in history.rounds.values():
        found += check_round(one)
    found += check_growth(history.samples)
    return found


def check_request(request: RequestHistory, history: History) -> Iterator[Violation]:
    """What is wrong with one request, whatever was done to the server."""
    number = int(request.sent.get("round", -1)) if request.sent else -1

    def wrong(rule: str, found: str) -> Violation:
        return Violation(rule=rule, found=found, round=number, traffic=request.traffic, request=request.request)

    if request.sent is None:
        yield wrong("not sent", f"{len(request.responses)} responses to {request.request}, which nobody sent")
        return
    for response in request.responses:
        if response.get("id", request.request) != request.request:
            yield wrong("not sent", f"the answer to {response['id']} as that to {request.request}")
        if response.get("late") or response["at"] > request.ended_at:
            yield wrong("token after end", f"{response.get('tokens') or response.get('text')!r}")
    if len(request.ends) > 1:
        yield wrong("token after end", f"{len(request.ends)} ends")
    yield from _check_answer(request, history, wrong)
    expect = history.rounds[number].expect if number in history.rounds else {}
    if number in history.rounds and _may_be_silent(history.rounds[number], request):
        return
    if not request.ends or (request.how in NO_END and not (expect.get("may_cut") and request.how == "cut")):
        yield wrong("lost", f"ended: {request.how or 'never'}, after {len(request.responses)} responses")
    bound_s = float(expect.get("silence_s", 5.0))
    times = [request.sent_at, *(response["at"] for response in request.responses), request.ended_at]
    silence_s = max((later - earlier for earlier, later in pairwise(times)), default=0.0)
    if bound_s < silence_s < float("inf"):
        yield wrong("silent", f"{silence_s:.1f} s")


def _check_answer(request: RequestHistory, history: History, wrong: Any) -> Iterator[Violation]:
    assert request.sent is not None
    reference = history.references.get((request.model, request.sent["input"]))
    parts = [one for one in request.responses if not one.get("alive")]
    if reference is None:
        if parts:
            yield wrong("wrong token", f"no reference for {request.sent['input']!r}")
        return
    by_tokens = any(one.get("tokens") is not None for one in parts)
    for candidate in sorted(
        {str(one["candidate"]) for one in parts} | (set(reference) if request.how == "ok" else set())
    ):
        mine = [one for one in parts if str(one["candidate"]) == candidate]
        served: Sequence[Any]
        if by_tokens:
            served = [token for one in mine for token in one.get("tokens") or ()]
            expected: Sequence[Any] = reference.get(candidate, {}).get("tokens", [])
        else:
            served = "".join(one.get("text") or "" for one in mine)
            expected = reference.get(candidate, {}).get("text", "")
        if (request.how == "ok" and served == expected) or (request.how != "ok" and served == expected[: len(served)]):
            continue
        yield wrong(_name_difference(served, expected), f"candidate {candidate}: {served!r} for {expected!r}"[:400])


def _name_difference(served: Sequence[Any], expected: Sequence[Any]) -> str:
    if _is_part(served, expected):
        return "missing token"
    return "duplicate token" if _is_part(expected, served) and set(served) <= set(expected) else "wrong token"


def _is_part(part: Sequence[Any], whole: Sequence[Any]) -> bool:
    rest = iter(whole)
    return all(any(one == other for other in rest) for one in part)


def check_round(one: RoundHistory) -> list[Violation]:
    """Whether a fault did no more than its scenario expects."""
    return [*_check_tested(one), *_check_failures(one), *_check_recovery(one), *_check_server(one)]


def _check_tested(one: RoundHistory) -> Iterator[Violation]:
    if one.injected is None or one.finished is None:
        yield Violation(rule="untested", found="the round did not finish", round=one.number)
    answered = {request.traffic for request in one.requests if request.how == "ok"}
    for traffic, models in one.traffics.items():
        if traffic not in answered and set(models) & set(one.models):
            yield Violation(rule="untested", found="no request was answered", round=one.number, traffic=traffic)


def _may_be_silent(one: RoundHistory, request: RequestHistory) -> bool:
    """Whether Triton does not tell a bare stream that its worker is dead, and the scenario knows."""
    is_known = bool(one.expect.get("bare_may_be_silent")) and request.sent is not None and request.sent.get("bare")
    in_time = one.removed is not None and request.sent_at < one.removed + BARE_S
    return bool(is_known and in_time and request.how == "silent" and _is_target(one, request))


def _is_target(one: RoundHistory, request: RequestHistory) -> bool:
    return not one.target or request.model == one.target


def _check_failures(one: RoundHistory) -> Iterator[Violation]:
    expect, begin = one.expect, one.injected
    if begin is None:
        return
    for traffic in one.traffics:
        own = [request for request in one.requests if request.traffic == traffic]
        missing = bool(expect.get("missing"))
        before = [r for r in own if r.ended_at < begin and not (missing and _is_target(one, r))]
        groups = [
            ("failed", "before the fault", before, 0),
            ("failed", "to the target", [r for r in own if _is_target(one, r)], expect.get("target_failed")),
            ("failed", "to other models", [r for r in own if not _is_target(one, r)], expect.get("others_failed")),
        ]
        for rule, whose, requests, bound in groups:
            failed = [request for request in requests if request.how != "ok"]
            if bound is not None and len(failed) > bound:
                yield Violation(
                    rule=rule,
                    found=f"{len(failed)} requests {whose}: {_reasons(failed)}",
                    round=one.number,
                    traffic=traffic,
                )
        in_flight = [
            request for request in own if request.sent_at < begin <= request.ended_at and _is_target(one, request)
        ]
        if expect.get("complete"):
            for request in in_flight:
                ahead_s = begin - request.sent_at
                if request.how != "ok" and ahead_s > TAKEN_S:
                    found = f"sent {ahead_s:.2f} s before the fault, ended: {_reasons([request])}"
                    yield _violation(one, request, "failed", found)
        if (bound_s := expect.get("ended_s")) is not None:
            for request in in_flight:
                is_late = request.how != "ok" and request.ended_at - begin > bound_s
                if is_late and not _may_be_silent(one, request):
                    yield _violation(one, request, "late end", f"{request.ended_at - begin:.1f} s after the fault")
        if codes := expect.get("codes"):
            for request in own:
                if request.how == "error" and request.ends[0]["code"] not in codes:
                    yield _violation(one, request, "wrong code", _reasons([request]))


def _violation(one: RoundHistory, request: RequestHistory, rule: str, found: str) -> Violation:
    return Violation(rule=rule, found=found, round=one.number, traffic=request.traffic, request=request.request)


def _reasons(requests: Iterable[RequestHistory]) -> str:
    counts = Counter(f"{r.how} {r.ends[0].get('code', '') if r.ends else ''}".strip() for r in requests)
    return ", ".join(f"{count} {name or 'no end'}" for name, count in counts.most_common())


def recoveries(one: RoundHistory) -> dict[tuple[str, str], float]:
    """Seconds from the end of a fault to the first right answer to a request sent after it: (traffic, model) → time.

    Infinite where none came.
    """
    over = one.removed or one.injected or one.began
    found = {}
    for traffic, models in one.traffics.items():
        for model in models:
            if (one.target and model != one.target) or model not in one.models:
                continue
            ends = [
                request.ended_at
                for request in one.requests
                if request.traffic == traffic
                and request.model == model
                and request.how == "ok"
                and request.sent_at > over
            ]
            found[traffic, model] = min(ends, default=float("inf")) - over
    return found


def _check_recovery(one: RoundHistory) -> Iterator[Violation]:
    bound_s = one.expect.get("back_s")
    if bound_s is None or one.injected is None:
        return
    waiting = {request.traffic for request in one.requests if _may_be_silent(one, request)}
    for (traffic, model), seconds in recoveries(one).items():
        if seconds > (bound_s if traffic not in waiting else float(1 << 30)):  # its clients still wait, and ask nothing
            found = "no right answer more" if seconds == float("inf") else f"{seconds:.1f} s"
            yield Violation(rule="not back", found=f"{model}: {found}", round=one.number, traffic=traffic)


def _check_server(one: RoundHistory) -> Iterator[Violation]:
    def wrong(rule: str, found: str) -> Violation:
        return Violation(rule=rule, found=found, round=one.number)

    status = one.expect.get("exit_status")
    if status is None:
        if one.exited is not None and (not one.exited["asked"] or one.exited["status"]):
            yield wrong("ended", f"with {one.exited['status']}, {'when' if one.exited['asked'] else 'not'} asked to")
    elif one.exited is None:
        yield wrong("ended", "it did not")
    else:
        if one.exited["status"] != status:
            yield wrong("ended", f"with {one.exited['status']}, not with {status}")
        took_s = one.exited["at"] - (one.injected or one.began)
        if took_s > (one.expect.get("exit_s") or float("inf")):
            yield wrong("ended", f"after {took_s:.1f} s")
    if one.expect.get("same_processes"):
        for death in one.deaths:
            yield wrong("process died", f"{death['role']} {death['pid']} {death['model']}".strip())
    for leftover in one.leftovers:
        found = "; ".join(
            f"{name}: {', '.join(leftover[name])}" for name in sorted(set(leftover) - {"at", "kind", "round"})
        )
        yield wrong("left over", found)


def check_growth(samples: Iterable[Event]) -> Iterator[Violation]:
    """What processes hold in quiet moments: no more than at first, but for a bound."""
    for name, bound in (("rss_mb", MOST_GROWTH_MB), ("descriptors", float(MOST_DESCRIPTORS))):
        series: dict[str, list[tuple[float, int]]] = {}
        for sample in samples:
            if sample["quiet"]:
                for label, value in sample[name].items():
                    series.setdefault(label, []).append((value, sample.get("round", -1)))
        for label, values in series.items():
            if len(values) < 2:
                continue
            quarter = max(1, len(values) // 4)
            first = median(value for value, _ in values[:quarter])
            last = median(value for value, _ in values[-quarter:])
            if last - first > bound:
                found = f"{name} of {label}: {first:.0f} → {last:.0f}"
                yield Violation(rule="grown", found=found, round=values[-1][1])
