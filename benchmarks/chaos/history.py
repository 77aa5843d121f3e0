"""What happened in a run, as JSON lines: every request, every part of its answer, and what was done to the server.

    reference  what an input is answered in this process, before the run: model, input, answers
    round      a fault begins to be tried: round, scenario, target, traffics, models, expect
    fault      it is injected, or removed: round, phase
    sent       request, client, traffic, model, input, via, mode
    response   request, candidate, tokens, text; or alive, for a sign of life without a part of the answer
    end        request, how (ok, error, transport, cut, silent), code, message
    process    what (born, died), pid, role, model
    exit       the server under test ended: status, by_signal
    sample     quiet, rss_mb and descriptors by "role pid model"
    leftover   after the end: processes, regions, folders, ports
    finished   the round is over: round, recovered

Times are this machine's monotonic clock, in seconds; every line has ``at``.
"""

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Event = dict[str, Any]


class HistoryWriter:
    """Appends events to a file, and keeps them.

    Attributes:
        events: all of them.
        answered: when the latest request that was answered had been sent: (traffic, model) → time.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path, self.events = path, list[Event]()
        self.answered: dict[tuple[str, str], float] = {}
        self.round = -1
        self._file = path.open("w", encoding="utf-8")
        self._open: dict[str, Event] = {}

    @property
    def in_flight(self) -> int:
        """How many requests have not ended."""
        return len(self._open)

    def record(self, kind: str, **fields: Any) -> float:
        """Write one event; returns its time."""
        event = {"at": time.monotonic(), "kind": kind, **fields}
        if kind in ("sent", "sample", "process"):
            event["round"] = self.round
        self.events.append(event)
        self._file.write(json.dumps(event, ensure_ascii=False) + "\n")
        if kind == "sent":
            self._open[fields["request"]] = event
        elif kind == "end" and (sent := self._open.pop(fields["request"], None)) and fields["how"] == "ok":
            key = sent["traffic"], sent["model"]
            self.answered[key] = max(self.answered.get(key, 0.0), sent["at"])
        return float(event["at"])

    def close(self) -> None:
        self._file.close()


def read_events(path: Path) -> list[Event]:
    """Every event of a file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@dataclass(slots=True)
class RequestHistory:
    """One request: how it was sent, and what came, in the order of the history."""

    request: str
    sent: Event | None = None
    responses: list[Event] = field(default_factory=list)
    ends: list[Event] = field(default_factory=list)

    @property
    def traffic(self) -> str:
        return str(self.sent["traffic"]) if self.sent else ""

    @property
    def model(self) -> str:
        return str(self.sent["model"]) if self.sent else ""

    @property
    def how(self) -> str:
        """How it ended first; empty if it never did."""
        return str(self.ends[0]["how"]) if self.ends else ""

    @property
    def sent_at(self) -> float:
        return float(self.sent["at"]) if self.sent else 0.0

    @property
    def ended_at(self) -> float:
        """Infinite if it never did."""
        return float(self.ends[0]["at"]) if self.ends else float("inf")


@dataclass(slots=True)
class RoundHistory:
    """One fault with all the traffic around it.

    Attributes:
        injected, removed: when the fault began and was over; None if it was not.
        exited: the event of the server's end, if it ended.
        deaths: of the server's processes, before it was over.
    """

    number: int
    scenario: str
    target: str
    traffics: Mapping[str, list[str]]
    expect: Mapping[str, Any]
    began: float
    models: list[str] = field(default_factory=list)
    injected: float | None = None
    removed: float | None = None
    finished: float | None = None
    exited: Event | None = None
    leftovers: list[Event] = field(default_factory=list)
    deaths: list[Event] = field(default_factory=list)
    samples: list[Event] = field(default_factory=list)
    requests: list[RequestHistory] = field(default_factory=list)


@dataclass(slots=True)
class History:
    """A whole run, sorted by request and by round."""

    references: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    requests: dict[str, RequestHistory] = field(default_factory=dict)
    rounds: dict[int, RoundHistory] = field(default_factory=dict)
    samples: list[Event] = field(default_factory=list)
    processes: list[Event] = field(default_factory=list)

    @classmethod
    def of(cls, events: Iterable[Event]) -> "History":
        history = cls()
        for event in events:
            history._add(event)
        for request in history.requests.values():
            if request.sent is not None and (number := request.sent.get("round", -1)) in history.rounds:
                history.rounds[number].requests.append(request)
        return history

    def _add(self, event: Event) -> None:
        match event["kind"]:
            case "reference":
                self.references[event["model"], event["input"]] = event["answers"]
            case "round":
                names = ("scenario", "target", "traffics", "expect", "models")
                fields = {name: event[name] for name in names}
                self.rounds[event["round"]] = RoundHistory(event["round"], began=event["at"], **fields)
            case "fault":
                setattr(self.rounds[event["round"]], event["phase"], event["at"])
            case "finished":
                self.rounds[event["round"]].finished = event["at"]
            case "sent" | "response" | "end" as kind:
                request = self.requests.setdefault(event["request"], RequestHistory(event["request"]))
                if kind == "sent":
                    request.sent = event
                else:
                    (request.responses if kind == "response" else request.ends).append(event)
            case "exit":
                if event["round"] in self.rounds:
                    self.rounds[event["round"]].exited = event
            case "leftover":
                if event["round"] in self.rounds:
                    self.rounds[event["round"]].leftovers.append(event)
            case "sample":
                self.samples.append(event)
                if event["round"] in self.rounds:
                    self.rounds[event["round"]].samples.append(event)
            case "process":
                self.processes.append(event)
                if event["what"] == "died" and event["role"] != "other" and event["round"] in self.rounds:
                    one = self.rounds[event["round"]]
                    if one.injected is not None and one.finished is None:
                        one.deaths.append(event)
