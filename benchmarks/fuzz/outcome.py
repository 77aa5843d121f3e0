"""What came of inputs: how many were tried, and those that a program must not meet so, kept as files."""

import json
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HANG_S = 5.0
KEPT = 50
"""Failing inputs of one kind that are kept, at most."""


@dataclass(slots=True)
class Outcome:
    """Of one target.

    Attributes:
        answers: how inputs were answered: status or error → count.
        failures: what must not be → count.
        growth_mb: of the process that read them, between the first quarter and the end.
    """

    target: str
    folder: Path
    seed: int
    count: int = 0
    seconds: float = 0.0
    slowest_s: float = 0.0
    answers: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    rss_mb: list[float] = field(default_factory=list)

    def add(self, answer: str, data: bytes, seconds: float, failure: str = "") -> None:
        """Count one input; one that failed, or took too long, is kept."""
        self.count += 1
        self.slowest_s = max(self.slowest_s, seconds)
        self.answers[answer] += 1
        if not failure and seconds > HANG_S:
            failure = "hang"
        if failure:
            self.failures[failure] += 1
            if self.failures[failure] <= KEPT:
                self._keep(failure, answer, data, seconds)

    def _keep(self, failure: str, answer: str, data: bytes, seconds: float) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        stem = "".join(letter if letter.isalnum() else "-" for letter in failure)[:60]
        path = self.folder / f"{self.target}-{stem}-{self.failures[failure]}"
        path.with_suffix(".input").write_bytes(data)
        note = {"target": self.target, "seed": self.seed, "failure": failure, "answer": answer, "seconds": seconds}
        path.with_suffix(".json").write_text(json.dumps(note, indent=1) + "\n", encoding="utf-8")
        self.examples.setdefault(failure, answer)

    @property
    def growth_mb(self) -> float:
        if len(self.rss_mb) < 2:
            return 0.0
        return round(self.rss_mb[-1] - self.rss_mb[len(self.rss_mb) // 4], 1)

    def to_json(self) -> dict[str, Any]:
        return {
            "target": self.target,
            "inputs": self.count,
            "seconds": round(self.seconds, 1),
            "slowest_s": round(self.slowest_s, 2),
            "growth_mb": self.growth_mb,
            "answers": dict(self.answers.most_common(12)),
            "failures": dict(self.failures),
            "examples": {name: text[:300] for name, text in self.examples.items()},
        }


class Budget:
    """So many inputs, in so many seconds, whichever ends first."""

    def __init__(self, inputs: int, seconds: float) -> None:
        self.inputs, self._until = inputs, time.monotonic() + seconds

    @property
    def is_over(self) -> bool:
        return time.monotonic() > self._until
