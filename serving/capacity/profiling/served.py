"""A trace of a server under load, and what its clients saw → what serving adds to the engine.

way of a request       time to its first token − (first response sent − the engine could begin with it)
factor of a step       its time / what the profile says of its runs
time of a response     sent − the last one was sent, or, where none was being sent, − its first piece was there
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from attendant.errors import ServerError
from clients.load.record import RequestRecord
from serving.capacity.profile import Profile
from serving.capacity.profiling.traced import Trace
from serving.capacity.series import spread_of, stretches_of
from serving.capacity.served import Served


def read_trace(path: Path) -> Trace:
    """The trace that a server wrote.

    Raises:
        ServerError: there is none.
    """
    try:
        return Trace(**json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise ServerError(f"a trace at {path}", str(error), "look at the server's log") from error


def during(trace: Trace, began_s: float, ended_s: float) -> Trace:
    """The part of a trace between two times of the monotonic clock, from the first request of a load on."""
    began_s = min(at_s for request, at_s in trace.lined if at_s >= began_s and request.startswith(_LOAD))
    return Trace(
        runs=[run for run in trace.runs if began_s <= run[0] < ended_s],
        steps=[step for step in trace.steps if began_s <= step[0] < ended_s],
        lined=[one for one in trace.lined if began_s <= one[1] < ended_s],
        said=[one for one in trace.said if began_s <= one[1] < ended_s],
        sent=[one for one in trace.sent if began_s <= one[1] < ended_s],
    )


def served_of(
    profile: Profile, observed: Sequence[tuple[Trace, Sequence[RequestRecord]]], tokens_per_s: float
) -> Served:
    """What serving added.

    Args:
        profile: what the engine takes by itself.
        observed: of each server that was started, its trace during a load, and what became of the requests behind the
            warm-up; all were answered, and their numbers end the ids by which the server knew them.
        tokens_per_s: of their answers.
    """
    decode, prompt, ways = list[float](), list[float](), list[float]()
    first, later = list[float](), list[float]()
    for trace, records in observed:
        for whole, part in zip((decode, prompt), _factors(profile, trace), strict=True):
            whole += part
        for whole, part in zip((first, later), _responses_s(trace), strict=True):
            whole += part
        ways += _ways_s(trace, records)
    return Served(
        tokens_per_s=tokens_per_s,
        way_s=spread_of(ways),
        first_response_s=stretches_of(first),
        response_s=stretches_of(later or first),
        decode_factor=spread_of(decode),
        prompt_factor=spread_of(prompt or decode),
    )


def _factors(profile: Profile, trace: Trace) -> tuple[list[float], list[float]]:
    decode, prompt, runs = list[float](), list[float](), deque(trace.runs)
    for began_s, ended_s in trace.steps:
        expected_s, reads = 0.0, False
        while runs and runs[0][0] < ended_s:
            _, graph, rows, width, attended = runs.popleft()
            if graph == "encoder":
                expected_s += profile.encoding_s(rows, width)
            elif width > 1:
                expected_s += profile.reading_s(rows, width, attended)
            else:
                expected_s += profile.decoding_s(rows, attended)
            reads = reads or graph == "encoder" or width > 1
        if expected_s:
            (prompt if reads else decode).append((ended_s - began_s) / expected_s)
    return decode, prompt


def _ways_s(trace: Trace, records: Sequence[RequestRecord]) -> list[float]:
    begins, ends = np.array(trace.steps).T.tolist()
    first_sent: dict[int, float] = {}
    for request, _, sent_s in trace.sent:
        first_sent.setdefault(_number(request), sent_s)
    ready = {_number(request): _ready_s(lined_s, begins, ends) for request, lined_s in trace.lined}
    return [
        max(0.0, one.responses_s[0] - one.scheduled_s - (first_sent[one.number] - ready[one.number])) for one in records
    ]


def _ready_s(lined_s: float, begins: Sequence[float], ends: Sequence[float]) -> float:
    place = bisect_right(begins, lined_s)
    is_stepping = place > 0 and lined_s < ends[place - 1]
    return lined_s if is_stepping or place == len(begins) else begins[place]


def _responses_s(trace: Trace) -> tuple[list[float], list[float]]:
    said: defaultdict[str, deque[float]] = defaultdict(deque)
    for request, said_s in trace.said:
        said[request].append(said_s)
    first, later, last_s = list[float](), list[float](), 0.0
    for request, began_s, sent_s in trace.sent:
        pieces = said[request]
        there_s = pieces[0] if pieces and pieces[0] <= began_s else last_s
        while pieces and pieces[0] <= began_s:
            pieces.popleft()
        if there_s > last_s:
            first.append(sent_s - there_s)
        else:
            later.append(sent_s - last_s)
        last_s = sent_s
    return first, later


_LOAD = "load-"
"""How the ids begin that clients/load gives its requests; their numbers end them."""


def _number(request: str) -> int:
    return int(request.rpartition("-")[2])
